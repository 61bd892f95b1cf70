// The page as a crawler without scripts should get it, made on an inert copy in an isolated world: nothing of
// the page runs, and nothing that the page has redefined is used. Rules and reasons: docs/rendering.md.
((maxChars) => {
  const root = document.documentElement;
  if (!root) return { contentType: document.contentType, html: "" };

  const JS_TYPES = new Set([
    "application/ecmascript", "application/javascript", "application/x-ecmascript", "application/x-javascript",
    "text/ecmascript", "text/javascript", "text/javascript1.0", "text/javascript1.1", "text/javascript1.2",
    "text/javascript1.3", "text/javascript1.4", "text/javascript1.5", "text/jscript", "text/livescript",
    "text/x-ecmascript", "text/x-javascript", "module", "importmap", "speculationrules",
  ]);

  const executes = (script) => {
    const type = script.getAttribute("type");
    const language = script.getAttribute("language");
    if (type === null) return !language || JS_TYPES.has("text/" + language.trim().toLowerCase());
    return type === "" || JS_TYPES.has(type.split(";")[0].trim().toLowerCase());
  };

  const loadsScript = (link) => {
    const rel = (link.getAttribute("rel") || "").toLowerCase().split(/\s+/);
    const as = (link.getAttribute("as") || "").toLowerCase();
    if (rel.includes("modulepreload") || rel.includes("import")) return true;
    return (rel.includes("preload") || rel.includes("prefetch")) && /^(script|worker|sharedworker|serviceworker)$/.test(as);
  };

  const isHandler = (name) =>
    /^on[a-z]+$/.test(name) && (name in HTMLElement.prototype || name in window || /^on(begin|end|repeat)$/.test(name));

  const strip = (tree) => {
    for (const script of tree.querySelectorAll("script")) if (executes(script)) script.remove();
    for (const link of tree.querySelectorAll("link")) if (loadsScript(link)) link.remove();
    for (const noscript of tree.querySelectorAll("noscript")) noscript.remove();
    for (const element of [...(tree.attributes ? [tree] : []), ...tree.querySelectorAll("*")])
      for (const { name } of [...element.attributes]) if (isHandler(name)) element.removeAttribute(name);
    for (const template of tree.querySelectorAll("template")) strip(template.content);
  };

  const cssOf = (rules) => Array.from(rules, (rule) => rule.cssText).join("\n").replaceAll("</style", "<\\/style");

  // Rules that a script inserted are in the style sheet but not in the element's text.
  const insertedCss = (style) => {
    if (!style.sheet) return null;
    const live = style.sheet.cssRules;
    const text = style.textContent;
    if (live.length === 0 || (text.trim() !== "" && live.length === ruleCount(text))) return null;
    return cssOf(live);
  };

  const ruleCount = (text) => {
    const parsed = new CSSStyleSheet();
    parsed.replaceSync(text.replace(/@import[^;]*;/g, "@layer import-placeholder;"));
    return parsed.cssRules.length;
  };

  const inlineStyles = (copy) => {
    const copies = copy.querySelectorAll("style");
    root.querySelectorAll("style").forEach((style, index) => {
      const css = insertedCss(style);
      if (css !== null && copies[index]) copies[index].textContent = css;
    });
    const head = copy.querySelector("head");
    for (const sheet of head ? document.adoptedStyleSheets : []) {
      if (sheet.cssRules.length === 0) continue;
      const style = copy.ownerDocument.createElement("style");
      if (sheet.media.mediaText) style.setAttribute("media", sheet.media.mediaText);
      style.textContent = cssOf(sheet.cssRules);
      head.append(style);
    }
  };

  const contents = (name) => Array.from(document.querySelectorAll(`meta[name="${name}" i]`), (meta) => meta.content);

  // A document without a window: copied custom elements do not run their constructors.
  const inert = document.implementation.createHTMLDocument("");
  const copy = inert.importNode(root, true);
  inlineStyles(copy);
  strip(copy);
  const doctype = document.doctype ? new XMLSerializer().serializeToString(document.doctype) + "\n" : "";
  const html = doctype + copy.outerHTML;
  return {
    contentType: document.contentType,
    length: html.length,
    html: html.length > maxChars ? null : html,
    status: contents("prerender-status-code"),
    headers: contents("prerender-header"),
  };
})
