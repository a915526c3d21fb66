/** The parts of the page, each shown the answer: at once, or once the reader comes near it. */

import type { Answer } from './answer.ts'
import { Paced } from './paced.ts'

/** Pixels from the screen's edge. */
const nearPx = 400

interface Part {
  readonly element: HTMLElement
  /** It is shown the contenders alone, where ranking everything takes longer. */
  readonly atOnce?: boolean
  show(answer: Answer): void
}

interface Entry {
  readonly part: Part
  /** Not known before the browser has laid the page out. */
  near?: boolean
  /** The answer has changed since it was shown to the part. */
  behind: boolean
}

export class PartSchedule {
  readonly #entries: Entry[] = []
  #answer?: Answer
  readonly #paced = new Paced()
  readonly #observer = new IntersectionObserver((entries) => this.#moved(entries), {
    rootMargin: `${nearPx}px`,
  })

  add(part: Part): void {
    this.#entries.push({ part, behind: false })
    this.#observer.observe(part.element)
  }

  show(answer: Answer): void {
    this.#answer = answer
    this.#paced.stop()
    for (const entry of this.#entries) update(entry, answer)
  }

  /**
   * One after the other, and those far from the screen when they come near. @param done once all
   * that are near have it
   */
  showLittleByLittle(answer: Answer, done: () => void): void {
    this.#answer = answer
    // A part that is not laid out can never come near: it is empty, or stands on paper alone.
    const isFar = ({ near, part }: Entry) => near === false && part.element.offsetParent !== null
    for (const entry of this.#entries) entry.behind = true
    const due = this.#entries.filter((entry) => !isFar(entry))
    this.#paced.begin(0, () => updateInSteps(due, answer), done)
  }

  /**
   * Those that can show it before everything is ranked; what the others are still to be shown is of
   * an earlier question.
   */
  showAtOnce(answer: Answer): void {
    this.#paced.stop()
    for (const { part } of this.#entries) if (part.atOnce) part.show(answer)
  }

  #moved(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      const entry = this.#entries.find(({ part }) => part.element === target)
      if (!entry) continue
      entry.near = isIntersecting
      if (isIntersecting && entry.behind && this.#answer) update(entry, this.#answer)
    }
  }
}

function update(entry: Entry, answer: Answer): void {
  entry.behind = false
  entry.part.show(answer)
}

function* updateInSteps(due: readonly Entry[], answer: Answer): Generator<undefined, void> {
  for (const entry of due) {
    if (entry.behind) update(entry, answer)
    yield
  }
}
