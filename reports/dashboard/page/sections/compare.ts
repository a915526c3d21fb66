/** Experiments side by side, all under the question that the page asks. */

import type { FinishedTrial } from '../../../../trials/types.ts'
import { money, rate } from '../../../format.ts'
import { candidatesOf } from '../../../recommendation/candidates.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import { mostCompared } from '../../address.ts'
import { compareOption, compareWords } from '../../charts/compare-chart.ts'
import { billName, billsOf } from '../../charts/decision-chart.ts'
import { Ranker } from '../../ranking.ts'
import type { AddressBar } from '../address-bar.ts'
import type { App } from '../app.ts'
import { Chart, type Hovered } from '../chart.ts'
import { fill, h, tagOf } from '../dom.ts'
import type { Section, Shown } from '../section.ts'
import { follow } from '../source.ts'
import { type Side, sideBySide } from './compare-tables.ts'

interface Other {
  readonly id: string
  ranker?: Ranker
  readonly trials: FinishedTrial[]
  problem?: string
  stop: () => void
}

export class CompareSection implements Section {
  private others: readonly Other[] = []
  private sides: readonly Side[] = []
  private listed = ''
  private readonly select = h('select', {
    attributes: { id: 'compare-with', 'aria-label': 'Compare with' },
    on: { change: () => this.choose([...this.others.map(({ id }) => id), this.select.value]) },
  })
  private readonly chosen = h('span', { class: 'tags' })
  private readonly chart = new Chart(
    'experiments-compared',
    'Experiments side by side',
    'middle',
    (item) => this.hoverCard(item),
  )
  private readonly body = h('div', {})
  readonly element = h(
    'section',
    { attributes: { id: 'compare', 'aria-label': 'Compare' } },
    h(
      'header',
      {},
      h('h2', {}, 'Compare with other experiments'),
      h('span', {}, this.chosen, this.select),
    ),
    this.chart.element,
    this.body,
  )

  constructor(
    private readonly app: App,
    private readonly address: AddressBar,
  ) {}

  update(shown: Shown): void {
    const asked = this.address.takeCompared()
    if (asked.length > 0) {
      const known = asked.filter(
        (id) => this.app.experiments.some((e) => e.id === id) && id !== shown.experiment.id,
      )
      this.address.refuse(asked.filter((id) => !known.includes(id)).map((id) => `compare=${id}`))
      this.choose(known)
      return
    }
    this.offer(shown)
    this.element.classList.toggle('unasked', this.others.length === 0)
    this.sides = [shown, ...this.others].flatMap((one) => sideOf(one, shown))
    const together = this.sides.length > 1
    this.chart.element.hidden = !together
    if (together) this.draw(shown)
    const problems = this.others.flatMap(({ id, problem }) =>
      problem === undefined ? [] : [h('p', { class: 'problem' }, `${id}: ${problem}`)],
    )
    const waiting = this.others.some(({ ranker, problem }) => !ranker && problem === undefined)
    fill(
      this.body,
      ...problems,
      waiting && h('p', {}, 'loading'),
      ...(together ? sideBySide(this.sides) : []),
    )
  }

  private choose(ids: readonly string[]): void {
    const wanted = ids.filter((id) => id !== '')
    for (const one of this.others) if (!wanted.includes(one.id)) one.stop()
    this.others = wanted.map((id) => this.others.find((one) => one.id === id) ?? this.followed(id))
    this.address.compare(wanted)
    if (this.app.shown) this.update(this.app.shown)
  }

  private followed(id: string): Other {
    const next: Other = { id, trials: [], stop: () => {} }
    const again = () => this.others.includes(next) && this.app.shown && this.update(this.app.shown)
    next.stop = follow(id, {
      experiment: (e) => {
        next.ranker = new Ranker(e)
        again()
      },
      trials: (trials) => {
        next.trials.push(...trials)
        again()
      },
      ready: again,
      problem: (message) => {
        next.problem = message
        again()
      },
      connected: () => {},
    })
    return next
  }

  /** What can be chosen still, and what is. */
  private offer(shown: Shown): void {
    const known = this.app.experiments.filter((e) => e.id !== shown.experiment.id)
    this.element.hidden = known.length === 0
    const ids = this.others.map(({ id }) => id)
    const left = known.filter(
      ({ id, annotation }) => !ids.includes(id) && annotation?.archivedAt === undefined,
    )
    const key = JSON.stringify([left.map(({ id }) => id), ids])
    if (key === this.listed) return
    this.listed = key
    fill(
      this.select,
      h('option', { attributes: { value: '' } }, ids.length === 0 ? 'none' : 'add another'),
      ...left.map((e) =>
        h(
          'option',
          { attributes: { value: e.id } },
          `${e.id} (${e.trials} trials, ${e.provenance})`,
        ),
      ),
    )
    this.select.hidden = left.length === 0 || ids.length >= mostCompared
    fill(
      this.chosen,
      ...ids.map((id) =>
        tagOf(id, {
          label: `Remove ${id} from the comparison`,
          remove: () => this.choose(ids.filter((one) => one !== id)),
        }),
      ),
    )
  }

  private draw({ theme }: Shown): void {
    const compared = this.sides.map(({ experiment: { id }, recommendation }) => ({
      id,
      recommendation,
    }))
    const [bill] = billsOf(compared[0]!.recommendation)
    this.chart.set(() => compareOption(compared, bill!, theme))
    this.chart.describe(`${compareWords(compared, bill!)} (${billName(bill!)})`)
  }

  private hoverCard({ value: [, , place, trial] }: Hovered): HTMLElement | undefined {
    const side = place === undefined ? undefined : this.sides[place]
    const candidate = side && candidatesOf(side.recommendation).find((c) => c.trial === trial)
    if (!side || !candidate) return undefined
    const { label, status, capacityRps, pricePerHour } = candidate
    return h(
      'div',
      {},
      h('strong', {}, `${side.experiment.id}, trial ${trial}`),
      h('div', {}, label),
      h(
        'div',
        {},
        `${describeStatus(status, side.recommendation.provenance).name}: ${rate(capacityRps)}, ${money(pricePerHour)} / h`,
      ),
    )
  }
}

function sideOf(one: Shown | Other, { whatIf }: Shown): Side[] {
  if ('recommendation' in one) return [one]
  return one.ranker
    ? [
        {
          experiment: one.ranker.experiment,
          recommendation: one.ranker.recommend(one.trials, whatIf),
        },
      ]
    : []
}
