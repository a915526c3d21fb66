/** Load curves of the best configurations. */

import { rate } from '../../../format.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import { capacityText } from '../../../recommendation/words.ts'
import { kneeOf } from '../../analysis.ts'
import { curvesOption } from '../../charts/curves-chart.ts'
import type { App } from '../app.ts'
import { Chart } from '../chart.ts'
import { fill, h } from '../dom.ts'
import type { Section } from '../section.ts'
import { hoverCard } from './pareto.ts'

const drawn = 4

export function curvesSection(app: App): Section {
  const chart = new Chart(
    'load-curves',
    'Load curves',
    'middle',
    (item) => app.shown && hoverCard(app.shown, item),
  )
  chart.onClick((item) => {
    const trial = item.value[2]
    if (trial !== undefined) app.actions.openTrial(trial)
  })
  const key = h('ul', { class: 'key' })
  const note = h(
    'p',
    { class: 'note' },
    'Open-loop load: requests follow a fixed schedule, independent of responses, so queueing is visible. A hollow point marks where the model of the server reaches the SLO; all other points are measured windows. The ringed knee marks twice the unloaded latency.',
  )
  const element = h(
    'section',
    { attributes: { id: 'curves', 'aria-label': 'Load curves' } },
    h('h2', {}, 'Load curves of the best'),
    h('div', { class: 'columns' }, chart.element, h('div', {}, key, note)),
  )
  return {
    element,
    update({ trials, candidates, whatIf, ranker, recommendation, theme }) {
      const served = candidates.filter((c) => c.capacityRps > 0).slice(0, drawn)
      const judged = ranker.judged(trials, served, whatIf)
      element.hidden = judged.length === 0
      chart.set(() => curvesOption(judged, whatIf.slo, theme))
      chart.describe(
        `Load curves of ${judged.map((j) => `trial ${j.candidate.trial}, ${describeStatus(j.candidate.status, recommendation.provenance).name}: ${capacityText(j.candidate)}`).join('; ') || 'nothing yet'}`,
      )
      fill(
        key,
        ...judged.map((j) => {
          const knee = j.curve && kneeOf(j.curve)
          return h(
            'li',
            {},
            h('strong', {}, `trial ${j.candidate.trial}`),
            ` ${j.candidate.label}: ${capacityText(j.candidate)}${knee ? `, knee at ${rate(knee.rateRps)}` : ''}`,
          )
        }),
      )
    },
  }
}
