/**
 * Capacity: what a demand takes, what it costs, and how that changes when something is not as
 * assumed.
 */

import { money, percent, rate } from '../../../format.ts'
import type { Candidate } from '../../../recommendation/types.ts'
import { fleetFor, sensitivityOf } from '../../analysis.ts'
import { billOption } from '../../charts/capacity-chart.ts'
import { Chart } from '../chart.ts'
import { fill, h, table } from '../dom.ts'
import type { Section, Shown } from '../section.ts'

const compared = 3

export function capacitySection(): Section {
  const chart = new Chart('bill', 'Price per month against demand')
  const body = h('div', {})
  const fleets = h('div', {})
  const sensitivity = h('div', {})
  const columns = h('div', { class: 'columns' }, h('div', {}, chart.element, fleets), sensitivity)
  const element = h(
    'section',
    { attributes: { id: 'capacity', 'aria-label': 'Capacity plan' } },
    h('h2', {}, 'Capacity plan'),
    body,
    columns,
  )
  return {
    element,
    update({ recommendation: r, candidates, planning: { demandRps, headroom, assumed }, theme }) {
      const { best } = r
      columns.hidden = best === undefined || assumed === true
      chart.element.hidden = columns.hidden
      if (!best || assumed) {
        const missing = best
          ? 'Enter a demand above to see replicas, cost per month and what changes them.'
          : 'No configuration meets the SLO.'
        fill(body, h('p', {}, missing))
        return
      }
      const top = cheapestFor(candidates, best, demandRps, headroom)
      const fleet = fleetFor(best, demandRps, headroom)
      fill(body, planText(best, fleet, { demandRps, headroom }))
      chart.set(() =>
        billOption(top, demandRps, headroom, Math.max(demandRps * 3, best.capacityRps * 4), theme),
      )
      chart.describe(
        `Price per month by demand. At ${rate(demandRps)}: ${top.map((c) => `trial ${c.trial} ${money(fleetFor(c, demandRps, headroom).pricePerMonth)}`).join(', ')}`,
      )
      fill(fleets, fleetTable(top, demandRps, headroom))
      fill(
        sensitivity,
        h('h3', {}, 'Sensitivity'),
        sensitivityTable(best, fleet, demandRps, headroom),
      )
    },
  }
}

type Fleet = ReturnType<typeof fleetFor>

function planText(
  best: Candidate,
  fleet: Fleet,
  { demandRps, headroom }: Shown['planning'],
): HTMLElement {
  return h(
    'p',
    { class: 'plan' },
    h('strong', {}, `${fleet.replicas} replica${fleet.replicas === 1 ? '' : 's'}`),
    ` of ${best.label} carry ${rate(demandRps)} for `,
    h('strong', {}, `${money(fleet.pricePerMonth)} a month`),
    `; each runs at ${percent(fleet.utilisation)} of its safe capacity, and ${percent(headroom)} or more stays free. To survive the loss of one replica (N+1): ${fleet.withSpare} for ${money(fleet.withSparePerMonth)}.`,
  )
}

function fleetTable(
  candidates: readonly Candidate[],
  demandRps: number,
  headroom: number,
): HTMLElement {
  const rows = candidates.map((c) => {
    const f = fleetFor(c, demandRps, headroom)
    return [
      `${c.trial}: ${c.label}`,
      f.replicas,
      f.withSpare,
      money(f.pricePerMonth),
      money(f.withSparePerMonth),
      percent(f.utilisation),
      oneLost(f.utilisationOneLost),
    ]
  })
  const heads = [
    'configuration',
    'replicas',
    'N+1',
    'per month',
    'with N+1',
    'utilised',
    'one lost',
  ]
  return table(heads, rows, [1, 2, 3, 4, 5, 6], 'Fleets for the demand')
}

function sensitivityTable(
  best: Candidate,
  fleet: Fleet,
  demandRps: number,
  headroom: number,
): HTMLElement {
  const rows = sensitivityOf(best, demandRps, headroom).map(({ what, replicas, pricePerMonth }) => [
    what,
    replicas,
    money(pricePerMonth),
    changeOf(pricePerMonth / fleet.pricePerMonth),
  ])
  return table(
    ['when', 'replicas', 'per month', 'change'],
    rows,
    [1, 2, 3],
    'Sensitivity of the bill',
  )
}

/** The recommended configuration first, then those that are cheapest for the demand. */
function cheapestFor(
  candidates: readonly Candidate[],
  best: Candidate,
  demandRps: number,
  headroom: number,
): Candidate[] {
  const others = candidates
    .filter((c) => c.feasible && c !== best)
    .map((c) => ({ c, bill: fleetFor(c, demandRps, headroom).pricePerMonth }))
    .sort((a, b) => a.bill - b.bill)
  return [best, ...others.slice(0, compared - 1).map(({ c }) => c)]
}

const oneLost = (utilisation: number): string =>
  !Number.isFinite(utilisation)
    ? 'nothing left'
    : utilisation > 1
      ? `SLO violated (${percent(utilisation)})`
      : percent(utilisation)

const changeOf = (ratio: number): string =>
  Math.abs(ratio - 1) < 1e-9 ? '' : `${ratio > 1 ? '+' : '-'}${percent(Math.abs(ratio - 1))}`
