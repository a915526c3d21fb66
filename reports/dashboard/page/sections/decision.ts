/** Cost against safe capacity, with the baseline and what was gained. */
import { findOpenRivalsOf } from '../../../recommendation/open-rivals.ts'
import {
  type Bill,
  billName,
  billsOf,
  decisionOption,
  decisionWords,
} from '../../charts/decision-chart.ts'
import type { App } from '../app.ts'
import { Chart } from '../chart.ts'
import { fill, h } from '../dom.ts'
import type { Section, Shown } from '../section.ts'
import { hoverCard } from './pareto.ts'

export function decisionSection(app: App): Section {
  const chart = new Chart(
    'decision',
    'Cost and capacity',
    'tall',
    (item) => app.shown && hoverCard(app.shown, item),
  )
  chart.onClick(({ value }) => value[2] !== undefined && app.actions.openTrial(value[2]))
  const choice = h('fieldset', { class: 'switch' })
  const note = h('p', { class: 'note' })
  let chosen: Bill | undefined
  let offered = ''

  function offer(bills: readonly Bill[]): void {
    if (offered === bills.join()) return
    offered = bills.join()
    chosen = undefined
    fill(
      choice,
      h('legend', { class: 'unseen' }, 'Cost'),
      ...bills.map((value, i) => {
        const input = h('input', {
          attributes: { type: 'radio', name: 'bill', value, checked: i === 0 },
        })
        input.addEventListener('change', () => {
          chosen = value
          if (app.shown) show(app.shown)
        })
        return h('label', {}, input, billName(value))
      }),
    )
  }
  function show(shown: Shown): void {
    const { recommendation, devices, theme } = shown
    const bills = billsOf(recommendation)
    offer(bills)
    const bill = chosen ?? bills[0]!
    chart.element.hidden =
      recommendation.best === undefined && shown.candidates.every((c) => !(c.capacityRps > 0))
    chart.set(() => decisionOption({ recommendation, bill, devices }, theme))
    chart.describe(decisionWords(recommendation, bill))
    fill(note, noteOf(shown))
  }
  const element = h(
    'section',
    { attributes: { id: 'decide', 'aria-label': 'Cost and capacity' } },
    h('header', {}, h('h2', {}, 'Cost and capacity'), choice),
    chart.element,
    note,
  )
  return { element, update: show }
}

function noteOf({ recommendation: r, candidates, trials }: Shown): string {
  const served = candidates.filter((c) => c.capacityRps > 0)
  if (served.length === 0)
    return trials.length === 0 ? 'No trial has finished yet.' : 'No configuration meets this SLO.'
  const { better, close } = findOpenRivalsOf(r)
  const open = [...better, ...close].map((c) => c.trial)
  return [
    r.provenance === 'simulated'
      ? 'Down and right is better. Outlined: simulated twice. Filled: simulated once. Hollow: unreliable. Crossed: failed its second simulated load test.'
      : 'Down and right is better. Outlined: confirmed. Filled: measured once. Hollow: unreliable. Crossed: failed confirmation.',
    'Points stand at the safe capacity; bars reach to the upper end of the 90 % interval. The line is the cheapest configuration of at least that capacity.',
    ...(open.length > 0
      ? [
          `Ringed in red, statistically tied with the recommended one: trial${open.length === 1 ? '' : 's'} ${open.join(', ')}.`,
        ]
      : []),
    ...(served.length < candidates.length
      ? [`${candidates.length - served.length} without a capacity are not shown.`]
      : []),
  ].join(' ')
}
