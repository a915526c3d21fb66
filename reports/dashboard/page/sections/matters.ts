/** What matters: importance and effect of the parameters, history, and predictions against measurements. */

import { percent } from '../../../format.ts'
import { historyOf } from '../../analysis.ts'
import { effectOption, historyOption, importanceOption, predictedOption } from '../../charts/matters-chart.ts'
import type { Effects, ServedPoint } from '../../importance.ts'
import type { App, Section, Shown } from '../app.ts'
import { Chart } from '../chart.ts'
import { fill, h } from '../dom.ts'
import { askForEffects } from '../worker.ts'
import { hoverCard } from './pareto.ts'

/** Parameters whose effect gets a chart of its own. */
const mostEffects = 6

export function mattersSection(app: App): Section {
  const importance = new Chart('importance', 'Importance of the parameters', 'small')
  const effects = h('div', { class: 'effects' })
  const method = h('p', { class: 'note' })
  const few = h('p', { class: 'note' }, 'Too few trials have served yet to say what matters.')
  const history = new Chart('history', 'Best so far', 'small', (item) => app.shown && hoverCard(app.shown, item))
  const predicted = new Chart('predictions', 'Predicted against measured', 'small', (item) => app.shown && hoverCard(app.shown, item))
  const predictions = h(
    'div',
    {},
    h('h3', {}, 'Predicted against measured'),
    predicted.element,
    h('p', { class: 'note' }, 'Before each trial the model said what it expected, with a 90 % interval. On the diagonal it was right.'),
  )
  for (const chart of [history, predicted]) chart.onClick(({ value }) => value[2] !== undefined && app.actions.openTrial(value[2]))
  let against: 'trials' | 'money' = 'trials'
  const choose = (value: typeof against, text: string) => {
    const input = h('input', { attributes: { type: 'radio', name: 'against', value, checked: value === against } })
    input.addEventListener('change', () => {
      against = value
      if (app.shown) showHistory(app.shown)
    })
    return h('label', {}, input, text)
  }
  const ranked = h(
    'div',
    { class: 'columns' },
    h('div', {}, h('h3', {}, 'Importance'), importance.element, method),
    h('div', {}, h('h3', {}, 'Effect on the capacity'), effects),
  )
  const element = h(
    'section',
    { attributes: { id: 'matters', 'aria-label': 'What matters' } },
    h('h2', {}, 'What matters'),
    few,
    ranked,
    h(
      'div',
      { class: 'columns' },
      h(
        'div',
        {},
        h(
          'header',
          {},
          h('h3', {}, 'Best so far'),
          h(
            'fieldset',
            { class: 'switch' },
            h('legend', { class: 'unseen' }, 'Against'),
            choose('trials', 'trials'),
            choose('money', 'money'),
          ),
        ),
        history.element,
      ),
      predictions,
    ),
  )

  function showHistory({ trials, byTrial, ranker, whatIf, theme }: Shown): void {
    const { pricePerHour } = ranker.view(whatIf)
    const points = historyOf(trials, byTrial, (t) => pricePerHour(t.configuration))
    history.set(() => historyOption(points, against, whatIf.objective, theme))
    const last = points.findLast((p) => p.best !== undefined)
    const first = points.find((p) => p.best !== undefined && p.best === last?.best)
    history.describe(first ? `Best so far: found in trial ${first.trial} of ${trials.length}` : 'No trial has met the SLO yet')
  }

  function showPredictions({ trials, theme }: Shown): void {
    const pairs = trials.flatMap((t) =>
      t.predicted && t.state === 'complete' && t.measurement.capacityRps > 0
        ? [
            {
              trial: t.number,
              predicted: t.predicted.rate,
              low: t.predicted.low,
              high: t.predicted.high,
              measured: t.measurement.capacityRps,
            },
          ]
        : [],
    )
    predictions.hidden = pairs.length === 0
    if (pairs.length === 0) return
    predicted.set(() => predictedOption(pairs, theme))
    const inside = pairs.filter((p) => p.measured >= p.low && p.measured <= p.high).length
    predicted.describe(`${inside} of ${pairs.length} measurements lie within the 90 % interval foretold`)
  }

  let asked = ''
  let known: Effects | undefined
  const charts = new Map<string, Chart>()
  function showEffects({ theme }: Shown): void {
    ranked.hidden = known === undefined
    few.hidden = known !== undefined
    if (!known) return
    const { effects: all, fitted, served } = known
    importance.set(() => importanceOption(all, theme))
    importance.describe(
      `Importance: ${all.map((e) => `${e.parameter} ${percent(e.importance.median)}, ${percent(e.importance.low)} to ${percent(e.importance.high)}`).join('; ')}`,
    )
    const shown = all.slice(0, mostEffects).map((effect) => {
      const chart = charts.get(effect.parameter) ?? new Chart(`effect-${effect.parameter}`, effect.parameter, 'small')
      charts.set(effect.parameter, chart)
      chart.set(() => effectOption(effect, theme))
      chart.describe(
        `Effect of ${effect.parameter}: ${effect.values.map((v) => `${v.value}: ${v.median.toFixed(2)} times the mean`).join(', ')}`,
      )
      return chart.element
    })
    if (effects.childElementCount !== shown.length || shown.some((e, i) => effects.children[i] !== e)) fill(effects, ...shown)
    fill(
      method,
      `From a Gaussian process fitted to ${fitted === served ? `the ${served}` : `${fitted} of the ${served}`} configurations that served: medians and 90 % intervals over functions drawn from its posterior. Importance is the total-order index: the share of the capacity's variation over the space that would be left unknown if this parameter alone were. Interactions count for each parameter in them, so shares may sum to more than 100 %. Wide intervals mean that too little was tried to tell.`,
    )
  }

  return {
    element,
    update(shown) {
      showHistory(shown)
      showPredictions(shown)
      showEffects(shown)
      const served = servedPoints(shown)
      const key = `${served.length} ${shown.whatIf.slo.limitMs} ${shown.whatIf.slo.percentile} ${served.at(-1)?.capacityRps}`
      if (key === asked || app.loading) return
      asked = key
      askForEffects({ parameters: shown.experiment.parameters, served, seed: shown.experiment.seed }, (answer) => {
        if (asked !== key || !app.shown) return
        known = answer
        showEffects(app.shown)
      })
    },
  }
}

/** z of a two-sided 90 % normal interval. */
const z90 = 1.645

/** In the order of trials, so that the model does not depend on the ranking. */
function servedPoints({ candidates }: Shown): ServedPoint[] {
  return candidates
    .filter((c) => c.capacityRps > 0 && c.bound !== 'upper')
    .sort((a, b) => a.trial - b.trial)
    .map(({ configuration, capacityRps, capacityCi90Rps: [low, high] }) => ({
      configuration,
      capacityRps,
      ...(low > 0 && Number.isFinite(high) && high > low ? { logSd: Math.log(high / low) / (2 * z90) } : {}),
    }))
}
