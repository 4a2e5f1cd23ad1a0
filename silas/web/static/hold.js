// @ts-check
// Against clicks that were meant for something else: a card is deaf for half a second after it has
// appeared, changed or come into view, and only a person's own input counts.

export const DEAF_MILLISECONDS = 500;

export class Hold {
  #until = 0;
  #node;

  constructor(node) {
    this.#node = node;
    this.start();
  }

  /** Be deaf from now on, for a moment. */
  start() {
    this.#until = performance.now() + DEAF_MILLISECONDS;
    this.#node.dataset.arming = "";
    setTimeout(() => {
      if (performance.now() >= this.#until) delete this.#node.dataset.arming;
    }, DEAF_MILLISECONDS + 10);
  }

  /** A listener that hears only what counts. */
  guard(listener) {
    return (event) => {
      if (!event.isTrusted || performance.now() < this.#until) {
        event.preventDefault();
        return;
      }
      listener(event);
    };
  }
}
