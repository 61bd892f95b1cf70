// Fills the empty page from JSON, as a single-page shop does. Without it there is nothing to read.
const app = document.getElementById("app");

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function inHead(name, attributes, text = "") {
  document.head.append(element(name, attributes, text));
}

const price = (product) => element("span", { class: "price" }, `${product.price} EUR`);

function productList(products) {
  const items = products.map((product) =>
    element("li", {}, element("a", { href: product.path }, product.name), element("br"), price(product)));
  return element("ul", { class: "products" }, ...items);
}

const views = {
  home(data) {
    const links = Object.entries(data.categories).map(([slug, name]) => element("a", { href: `/c/${slug}` }, name));
    return [element("nav", {}, ...links), productList(data.products)];
  },
  category(data) {
    const pages = Array.from({ length: data.pages }, (_, at) =>
      element("a", { href: at ? `?page=${at + 1}` : location.pathname }, `Page ${at + 1}`));
    return [productList(data.products), element("nav", {}, ...pages)];
  },
  product({ product }) {
    const facts = {
      "@context": "https://schema.org", "@type": "Product", name: product.name, description: product.description,
      material: product.material, offers: { "@type": "Offer", price: product.price, priceCurrency: "EUR" },
    };
    inHead("script", { type: "application/ld+json" }, JSON.stringify(facts));
    inHead("meta", { name: "description", content: product.description });
    return [element("p", {}, product.description), element("p", {}, price(product)),
      element("a", { href: `/c/${product.category}` }, product.kind)];
  },
  guide({ guide }) {
    return guide.paragraphs.map((text) => element("p", {}, text));
  },
  trouble(data) {
    return [element("p", {}, `This page is broken on purpose: ${data.title}.`)];
  },
};

async function fill() {
  const answer = await fetch(`/api${location.pathname}${location.search}`);
  if (!answer.ok) {
    document.title = "Nothing here";
    app.append(element("h1", {}, "Nothing here"), element("p", {}, `The shop answered ${answer.status}.`));
    window.prerenderReady = true;
    return;
  }
  const data = await answer.json();
  document.title = data.title;
  inHead("link", { rel: "canonical", href: location.origin + location.pathname + location.search });
  app.append(element("p", {}, element("a", { href: "/" }, "Lamplight")), element("h1", {}, data.title), ...views[data.view](data));
  if (window.prerenderReady === false && data.ready !== false) window.prerenderReady = true;
}

fill();
