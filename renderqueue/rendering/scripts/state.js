// Whether the document is parsed, and for how long (ms) its DOM has not changed. The observer is put in place by
// the first call in each document; it sees mutations, never repaints (F16).
(() => {
  if (globalThis.lastChange === undefined) {
    globalThis.lastChange = performance.now();
    new MutationObserver(() => { globalThis.lastChange = performance.now(); })
      .observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  }
  return [document.readyState !== "loading", performance.now() - globalThis.lastChange];
})()
