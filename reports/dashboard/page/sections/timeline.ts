/** When each trial ran. */

import { significant } from '../../../format.ts'
import { timelineOption } from '../../charts/matters-chart.ts'
import type { App } from '../app.ts'
import { Chart } from '../chart.ts'
import { h } from '../dom.ts'
import type { Section } from '../section.ts'
import { hoverCard } from './pareto.ts'

/** Later ones are left out of the drawing: bars of less than a pixel say nothing. */
const most = 5_000

export function timelineSection(app: App): Section {
  const chart = new Chart(
    'timeline',
    'Timeline of the trials',
    'strip',
    (item) => app.shown && hoverCard(app.shown, item),
  )
  chart.onClick(({ value }) => value[3] !== undefined && app.actions.openTrial(value[3]))
  const note = h('p', { class: 'note' })
  const element = h(
    'section',
    { attributes: { id: 'timeline', 'aria-label': 'Timeline' } },
    h('h2', {}, 'Timeline'),
    chart.element,
    note,
  )
  return {
    element,
    update({ trials, theme }) {
      element.hidden = trials.length === 0
      if (trials.length === 0) return
      chart.set(() => timelineOption(trials.slice(0, most), theme))
      const seconds = trials.reduce((sum, t) => sum + t.seconds, 0)
      const count = (state: string) => trials.filter((t) => t.state === state).length
      note.textContent = `${significant(seconds / 60)} minutes of trials: ${count('complete')} measured (blue; confirmations green), ${count('infeasible')} that cannot serve (orange), ${count('failed')} failed (red).${trials.length > most ? ` The first ${most} are shown.` : ''}`
      chart.describe(note.textContent)
    },
  }
}
