// What the console's pages need beside htmx: quiet in a hidden tab, honest when cut off, local times in titles.
"use strict";

const live = () => document.querySelector("[data-live]");
const connection = () => document.getElementById("connection");
let updatedAt = new Date();

document.addEventListener("htmx:before:request", (event) => {
  if (document.hidden && event.target.matches("[data-live]")) event.preventDefault();
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && live()) htmx.trigger(live(), "refresh");
});

function cutOff() {
  const line = connection();
  line.textContent = `Not updated since ${updatedAt.toLocaleTimeString()}: the server does not answer. What you see is old; it is tried again every two seconds.`;
  line.hidden = false;
}
document.addEventListener("htmx:error", cutOff);
document.addEventListener("htmx:response:error", cutOff);

document.addEventListener("htmx:after:swap", () => {
  updatedAt = new Date();
  connection().hidden = true;
  localise(document);
});

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const instant = new Date(time.dateTime);
    if (isNaN(instant)) continue;
    const utc = time.dateTime.replace("T", " ").replace("Z", " UTC");
    time.title = `${utc}\n${instant.toLocaleString()} here`;
  }
}
localise(document);
