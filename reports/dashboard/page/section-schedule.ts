/**
 * Schedules the rendering of the page's sections: all at once, or those in and near the viewport
 * first and the others when they come near it.
 */

import type { Answer } from './answer.ts'
import { TimeSlicer } from './time-slicer.ts'

/** Sections within this distance of the viewport are rendered, pixels. */
const renderMarginPx = 400

interface ScheduledSection {
  readonly element: HTMLElement
  /** Also renders the preliminary ranking, of only the best trials, before all are ranked. */
  readonly showsPreliminary?: boolean
  show(answer: Answer): void
}

interface Entry {
  readonly section: ScheduledSection
  /** Whether the section is near the viewport; undefined until the observer first reports. */
  isNear?: boolean
  /** The answer has changed since the section was rendered. */
  isStale: boolean
}

export class SectionSchedule {
  readonly #entries: Entry[] = []
  #answer?: Answer
  readonly #timeSlicer = new TimeSlicer()
  readonly #observer = new IntersectionObserver((entries) => this.#handleIntersections(entries), {
    rootMargin: `${renderMarginPx}px`,
  })

  add(section: ScheduledSection): void {
    this.#entries.push({ section, isStale: false })
    this.#observer.observe(section.element)
  }

  /** Renders every section now. */
  renderAll(answer: Answer): void {
    this.#answer = answer
    this.#timeSlicer.stop()
    for (const entry of this.#entries) update(entry, answer)
  }

  /**
   * Renders sections one after another; those far from the viewport wait until they come near it.
   * @param done called when all sections near the viewport are rendered
   */
  renderIncrementally(answer: Answer, done: () => void): void {
    this.#answer = answer
    // A section without layout (empty, or print-only) never intersects: render it now.
    const isFar = ({ isNear, section }: Entry) =>
      isNear === false && section.element.offsetParent !== null
    for (const entry of this.#entries) entry.isStale = true
    const due = this.#entries.filter((entry) => !isFar(entry))
    this.#timeSlicer.start(0, () => updateInSteps(due, answer), done)
  }

  /**
   * Renders the sections that show a preliminary ranking, and cancels a pending incremental
   * rendering, which is outdated.
   */
  renderPreliminary(answer: Answer): void {
    this.#timeSlicer.stop()
    for (const { section } of this.#entries) if (section.showsPreliminary) section.show(answer)
  }

  #handleIntersections(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      const entry = this.#entries.find(({ section }) => section.element === target)
      if (!entry) continue
      entry.isNear = isIntersecting
      if (isIntersecting && entry.isStale && this.#answer) update(entry, this.#answer)
    }
  }
}

function update(entry: Entry, answer: Answer): void {
  entry.isStale = false
  entry.section.show(answer)
}

function* updateInSteps(due: readonly Entry[], answer: Answer): Generator<undefined, void> {
  for (const entry of due) {
    if (entry.isStale) update(entry, answer)
    yield
  }
}
