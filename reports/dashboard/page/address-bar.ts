/**
 * Keeps the browser's address to what the page asks, and asks what the address says when the page
 * opens.
 */
import { getDemand } from '../../../search/objective.ts'
import { type Asked, addressOf, askedBy } from '../address.ts'
import type { DashboardExperiment } from '../data.ts'
import type { App } from './app.ts'
import { h } from './dom.ts'
import type { Section, Shown } from './section.ts'

/** A drag changes the question sixty times a second; browsers refuse so many addresses. */
const pauseMs = 150

export class AddressBar implements Section {
  readonly element = h('span', {})
  /**
   * What the address asked that is still to be done: trial to open, experiments to compare with.
   */
  private readonly asked: { trial?: number; compared?: readonly string[] } = {}
  private trial?: number
  private compared: readonly string[] = []
  private timer?: ReturnType<typeof setTimeout>
  private shown?: Shown

  /** @param problem says which parts of the address cannot be asked */
  constructor(
    private readonly app: App,
    private readonly problem: (message: string) => void,
  ) {}

  /** Asks what the address says. */
  open(experiment: DashboardExperiment): void {
    const {
      whatIf,
      planning,
      trial,
      sideBySide = [],
      compared = [],
      refused,
    } = askedBy(location.search, experiment)
    if (planning) this.app.plan(planning)
    for (const number of sideBySide) this.app.sideBySide.add(number)
    this.app.ask(whatIf)
    Object.assign(this.asked, { trial, compared })
    Object.assign(this, { trial, compared })
    this.refuse(refused)
  }

  /** Says that parts of the address ask for what is not there; nothing where none does. */
  refuse(parts: readonly string[]): void {
    if (parts.length > 0)
      this.problem(
        `The address names items that do not exist here: ${parts.join(', ')}. The page applies the rest of the address.`,
      )
  }

  /** The trial that the address opened the page with, once. */
  takeTrial(): number | undefined {
    const { trial } = this.asked
    delete this.asked.trial
    return trial
  }
  takeCompared(): readonly string[] {
    const { compared = [] } = this.asked
    delete this.asked.compared
    return compared
  }

  openTrial(number: number | undefined): void {
    this.trial = number
    this.write()
  }
  compare(ids: readonly string[]): void {
    this.compared = ids
    this.write()
  }

  update(shown: Shown): void {
    this.shown = shown
    if (!this.app.loading) this.write()
  }

  private write(): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      if (!this.shown || !this.app.actions.online) return
      const { experiment, whatIf, planning } = this.shown
      const { trial, compared } = this
      const sideBySide = [...this.app.sideBySide]
      const asked: Asked = {
        whatIf,
        trial,
        sideBySide,
        compared,
        ...(planning.assumed || getDemand(whatIf.objective) ? {} : { planning }),
      }
      history.replaceState(null, '', `${addressOf(asked, experiment)}${location.hash}`)
    }, pauseMs)
  }
}
