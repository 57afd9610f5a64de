// Replaces the cards of the page as the server sends them; without script the page reloads itself.
const cards = document.getElementById("cards");
if (cards && cards.dataset.events) {
  const source = new EventSource(cards.dataset.events);
  source.addEventListener("card", (event) => {
    const made = document.createElement("template");
    made.innerHTML = event.data; // rendered and escaped by the server
    const card = made.content.querySelector("article");
    const old = card && document.getElementById(card.id);
    if (old) old.replaceWith(card);
  });
  source.addEventListener("end", () => source.close());
}
