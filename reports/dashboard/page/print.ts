/**
 * The page on paper: one A4 report under the question that is asked, with every chart drawn,
 * wherever the reader had scrolled.
 */
import { getMetric, getObjectiveWords } from '../../../search/objective.ts'
import { sloText } from '../../format.ts'
import type { App } from './app.ts'
import { chartsOnPage } from './chart.ts'
import { fill, h } from './dom.ts'
import type { Section } from './section.ts'

const root = () => document.documentElement

/** Makes the page ready for paper before it is printed, and as it was after. */
export function printWell(app: App): void {
  let opened: HTMLDetailsElement[] = []
  addEventListener('beforeprint', () => {
    root().dataset.printing = ''
    app.refresh()
    opened = [...document.querySelectorAll<HTMLDetailsElement>('details.more:not([open])')]
    for (const details of opened) details.open = true
    for (const chart of chartsOnPage()) chart.toPaper()
  })
  addEventListener('afterprint', () => {
    delete root().dataset.printing
    for (const details of opened) details.open = false
    for (const chart of chartsOnPage()) chart.fromPaper()
    app.refresh()
  })
}

/** What stands on paper in place of the fields that ask: experiment, SLO, objective, prices. */
export function paperHead(): Section {
  const element = h('p', { class: 'paper-only' })
  return {
    element,
    update({ experiment, whatIf: { slo, objective, prices }, original }) {
      const metric = getMetric(objective)
      fill(
        element,
        `${experiment.name} (${experiment.id}), ${experiment.createdAt.slice(0, 16).replace('T', ' ')} UTC. Objective: ${getObjectiveWords(objective.kind).choice}${metric === undefined ? '' : ` (${metric})`}, ${sloText(slo)}, prices: ${prices.name} (${prices.currency})${original ? '' : '; these differ from the settings of the experiment'}.`,
      )
    },
  }
}
