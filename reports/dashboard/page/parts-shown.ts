/** The parts of the page, each shown the answer: at once, or once the reader comes near it. */
import { Paced } from './paced.ts'
import type { Shown } from './shown.ts'

/** Pixels from the screen's edge. */
const nearPx = 400

interface Part {
  readonly element: HTMLElement
  /** It is shown the contenders alone, where ranking everything takes longer. */
  readonly atOnce?: boolean
  show(shown: Shown): void
}

interface Placed {
  readonly part: Part
  /** Not known before the browser has laid the page out. */
  near?: boolean
  /** The answer has changed since it was shown to the part. */
  behind: boolean
}

export class PartsShown {
  readonly #placed: Placed[] = []
  #shown?: Shown
  readonly #paced = new Paced()
  readonly #observer = new IntersectionObserver((entries) => this.#moved(entries), {
    rootMargin: `${nearPx}px`,
  })

  add(part: Part): void {
    this.#placed.push({ part, behind: false })
    this.#observer.observe(part.element)
  }

  show(shown: Shown): void {
    this.#shown = shown
    this.#paced.stop()
    for (const placed of this.#placed) update(placed, shown)
  }

  /**
   * One after the other, and those far from the screen when they come near. @param done once all
   * that are near have it
   */
  showLittleByLittle(shown: Shown, done: () => void): void {
    this.#shown = shown
    // A part that is not laid out can never come near: it is empty, or stands on paper alone.
    const isFar = ({ near, part }: Placed) => near === false && part.element.offsetParent !== null
    for (const placed of this.#placed) placed.behind = true
    const due = this.#placed.filter((placed) => !isFar(placed))
    this.#paced.begin(0, () => updating(due, shown), done)
  }

  /**
   * Those that can show it before everything is ranked; what the others are still to be shown is of
   * an earlier question.
   */
  showAtOnce(shown: Shown): void {
    this.#paced.stop()
    for (const { part } of this.#placed) if (part.atOnce) part.show(shown)
  }

  #moved(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      const placed = this.#placed.find(({ part }) => part.element === target)
      if (!placed) continue
      placed.near = isIntersecting
      if (isIntersecting && placed.behind && this.#shown) update(placed, this.#shown)
    }
  }
}

function update(placed: Placed, shown: Shown): void {
  placed.behind = false
  placed.part.show(shown)
}

function* updating(due: readonly Placed[], shown: Shown): Generator<undefined, void> {
  for (const placed of due) {
    if (placed.behind) update(placed, shown)
    yield
  }
}
