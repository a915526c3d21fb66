/** The sections of the page, each told what is shown: at once, or once the reader comes near it. */
import { Paced } from './paced.ts'
import type { Section, Shown } from './section.ts'

/** Pixels from the screen's edge. */
const nearPx = 400

interface Placed {
  readonly section: Section
  /** Not known before the browser has laid the page out. */
  near?: boolean
  /** What is shown has changed since it was told. */
  behind: boolean
}

export class SectionsShown {
  readonly #placed: Placed[] = []
  #shown?: Shown
  readonly #paced = new Paced()
  readonly #observer = new IntersectionObserver((entries) => this.#moved(entries), {
    rootMargin: `${nearPx}px`,
  })

  add(sections: readonly Section[]): void {
    for (const section of sections) {
      this.#placed.push({ section, behind: false })
      this.#observer.observe(section.element)
    }
  }

  tell(shown: Shown): void {
    this.#shown = shown
    this.#paced.stop()
    for (const placed of this.#placed) update(placed, shown)
  }

  /**
   * One after the other, and those far from the screen when they come near. @param done once all
   * that are near have it
   */
  tellLittleByLittle(shown: Shown, done: () => void): void {
    this.#shown = shown
    // What is not laid out can never come near: it is hidden until it is told, or stands on paper
    // alone.
    const isFar = ({ near, section }: Placed) =>
      near === false && section.element.offsetParent !== null
    for (const placed of this.#placed) placed.behind = true
    const due = this.#placed.filter((placed) => !isFar(placed))
    this.#paced.begin(0, () => updating(due, shown), done)
  }

  /**
   * Those that can say it without all that was ranked; what the others are still to be told is of
   * an earlier question.
   */
  tellAtOnce(shown: Shown): void {
    this.#paced.stop()
    for (const { section } of this.#placed) if (section.atOnce) section.update(shown)
  }

  #moved(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      const placed = this.#placed.find(({ section }) => section.element === target)
      if (!placed) continue
      placed.near = isIntersecting
      if (isIntersecting && placed.behind && this.#shown) update(placed, this.#shown)
    }
  }
}

function update(placed: Placed, shown: Shown): void {
  placed.behind = false
  placed.section.update(shown)
}

function* updating(due: readonly Placed[], shown: Shown): Generator<undefined, void> {
  for (const placed of due) {
    if (placed.behind) update(placed, shown)
    yield
  }
}
