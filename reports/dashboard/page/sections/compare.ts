/** Two experiments side by side, both under the question that the page asks. */

import type { FinishedTrial } from '../../../../trials/types.ts'
import { money, percent, rate, rateInterval, sloText, times } from '../../../format.ts'
import { candidatesOf } from '../../../recommendation/candidates.ts'
import type { Recommendation } from '../../../recommendation/types.ts'
import { pairsOf } from '../../analysis.ts'
import type { DashboardExperiment } from '../../data.ts'
import { Ranker } from '../../ranking.ts'
import type { AddressBar } from '../address-bar.ts'
import type { App, Section, Shown } from '../app.ts'
import { type Child, fill, h, table } from '../dom.ts'
import { follow } from '../source.ts'
import { provenanceBadge } from './verdict-section.ts'

const mostPairs = 25

interface Other {
  ranker?: Ranker
  readonly trials: FinishedTrial[]
  problem?: string
  stop: () => void
}

export function compareSection(app: App, address: AddressBar): Section {
  const select = h('select', {
    attributes: { id: 'compare-with', 'aria-label': 'Compare with' },
    on: { change: () => choose(select.value) },
  })
  const body = h('div', {})
  const element = h(
    'section',
    { attributes: { id: 'compare', 'aria-label': 'Compare' } },
    h('header', {}, h('h2', {}, 'Compare with another experiment'), select),
    body,
  )
  let other: Other | undefined
  let listed = ''

  function choose(id: string): void {
    other?.stop()
    other = undefined
    if (id !== '') {
      const next: Other = { trials: [], stop: () => {} }
      const again = () => other === next && app.shown && show(app.shown)
      next.stop = follow(id, {
        experiment: (e: DashboardExperiment) => {
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
      other = next
    }
    address.compare(id)
    if (app.shown) show(app.shown)
  }

  function show(shown: Shown): void {
    const others = app.experiments.filter((e) => e.id !== shown.experiment.id)
    element.hidden = others.length === 0
    const key = others.map((e) => e.id).join()
    if (key !== listed) {
      listed = key
      fill(
        select,
        h('option', { attributes: { value: '' } }, 'none'),
        ...others.map((e) => h('option', { attributes: { value: e.id } }, `${e.id} (${e.trials} trials, ${e.provenance})`)),
      )
    }
    element.classList.toggle('unasked', other === undefined)
    const asked = address.takeCompared()
    if (asked !== undefined) {
      select.value = others.some((e) => e.id === asked) ? asked : ''
      if (select.value === '') address.refuse([`compare=${asked}`])
      choose(select.value)
      return
    }
    if (!other) fill(body)
    else if (other.problem) fill(body, h('p', { class: 'problem' }, other.problem))
    else if (!other.ranker) fill(body, h('p', {}, 'loading'))
    else compare(shown, other.ranker, other.trials)
  }
  function compare(shown: Shown, ranker: Ranker, trials: readonly FinishedTrial[]): void {
    fill(body, ...sideBySide(shown, ranker.experiment, ranker.recommend(trials, shown.whatIf)))
  }
  return { element, update: show }
}

function sideBySide(shown: Shown, other: DashboardExperiment, r: Recommendation): HTMLElement[] {
  const l = shown.recommendation
  const row = (name: string, of: (x: Recommendation) => Child): Child[] => [name, of(l), of(r)]
  const best = (x: Recommendation, of: (c: NonNullable<Recommendation['best']>) => string) =>
    x.best ? of(x.best) : 'nothing meets the SLO'
  const pairs = pairsOf(shown.candidates, candidatesOf(r))
  const served = pairs.filter((p) => Number.isFinite(p.ratio))
  return [
    table(
      ['', shown.experiment.id, other.id],
      [
        row('how', (x) => provenanceBadge(x.provenance)),
        ['its own SLO', sloOf(shown.experiment), sloOf(other)],
        row('verdict under the SLO above', (x) => x.verdict),
        row('configuration', (x) => best(x, (c) => c.label)),
        row('capacity', (x) => best(x, (c) => `${rate(c.capacityRps)} (${rateInterval(c.capacityCi90Rps)})`)),
        row('price', (x) => best(x, (c) => `${money(c.pricePerHour)} / h, ${money(c.pricePerMillionRequests)} per million requests`)),
        row('what limits it', (x) => `${x.binding.what}: ${x.binding.evidence}`),
        row('against its default', (x) => (x.gainOverDefault === undefined ? '' : times(x.gainOverDefault))),
        row('trials', (x) => x.trials),
        ['seed', shown.experiment.seed, other.seed],
      ],
      [],
      'Two experiments side by side',
    ),
    h('h3', {}, `Measured in both: ${pairs.length} configuration${pairs.length === 1 ? '' : 's'}`),
    served.length > 0
      ? table(
          ['configuration', shown.experiment.id, other.id, 'change', 'intervals'],
          served
            .slice(0, mostPairs)
            .map((p) => [
              p.label,
              rate(p.left.capacityRps),
              rate(p.right.capacityRps),
              changeOf(p.ratio),
              p.overlap ? 'overlap: no certain difference' : 'apart',
            ]),
          [1, 2, 3],
          'Capacity of configurations measured in both',
        )
      : h('p', {}, 'None of them served in both.'),
    ...(served.length > mostPairs ? [h('p', { class: 'note' }, `and ${served.length - mostPairs} more, with smaller changes`)] : []),
  ]
}

const sloOf = ({ slo }: DashboardExperiment): string => sloText(slo)
const changeOf = (ratio: number): string =>
  Math.abs(ratio - 1) < 5e-4 ? 'none' : `${ratio > 1 ? '+' : '-'}${percent(Math.abs(ratio - 1))}`
