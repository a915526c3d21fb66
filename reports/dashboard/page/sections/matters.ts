/**
 * Importance and effect of the parameters, history, and predictions against measurements; folded,
 * for those who look into the search.
 */

import { z90 } from '../../../../search/gp/normal.ts'
import { modelsCapacityOrLatency } from '../../../../search/objective.ts'
import { percent } from '../../../format.ts'
import { historyOf } from '../../analysis.ts'
import {
  effectOption,
  historyOption,
  importanceOption,
  predictedOption,
} from '../../charts/matters-chart.ts'
import type { Effects, ServedPoint } from '../../importance.ts'
import type { App } from '../app.ts'
import { Chart } from '../chart.ts'
import { fill, h } from '../dom.ts'
import { isPrinting } from '../is-printing.ts'
import type { Section, Shown } from '../section.ts'
import { askForEffects, type Matters } from '../worker.ts'
import { aroundTheBest, centreOf } from './around-section.ts'
import { hoverCard } from './pareto.ts'

/** Parameters whose effect gets a chart of its own. */
const mostEffects = 6

/** One part of the section: its element, and how it shows what is known. */
interface Part {
  readonly element: HTMLElement
  show(shown: Shown): void
}

export function mattersSection(app: App): Section {
  const history = bestSoFar(app)
  const predictions = predictedAgainstMeasured(app)
  const around = aroundTheBest(app, () => app.shown && effects.show(app.shown))
  const effects = importanceAndEffects(app, around)
  const element = h(
    'section',
    { attributes: { id: 'matters', 'aria-label': 'Parameter importance' } },
    h(
      'details',
      { class: 'more' },
      h('summary', {}, h('h2', {}, 'Parameter importance and search history')),
      effects.element,
      h('div', { class: 'columns' }, history.element, predictions.element),
      around.element,
    ),
  )
  return {
    element,
    update(shown) {
      for (const part of [history, predictions, effects]) part.show(shown)
    },
  }
}

/** A chart of trials: each opens by a click. */
function trialChart(app: App, id: string, title: string): Chart {
  const chart = new Chart(id, title, 'small', (item) => app.shown && hoverCard(app.shown, item))
  chart.onClick(({ value }) => value[2] !== undefined && app.actions.openTrial(value[2]))
  return chart
}

function bestSoFar(app: App): Part {
  const chart = trialChart(app, 'history', 'Best so far')
  let against: 'trials' | 'money' = 'trials'
  const choose = (value: typeof against, text: string) => {
    const input = h('input', {
      attributes: { type: 'radio', name: 'against', value, checked: value === against },
    })
    input.addEventListener('change', () => {
      against = value
      if (app.shown) show(app.shown)
    })
    return h('label', {}, input, text)
  }
  const choice = h(
    'fieldset',
    { class: 'switch' },
    h('legend', { class: 'unseen' }, 'Against'),
    choose('trials', 'trials'),
    choose('money', 'money'),
  )
  function show({ trials, byTrial, ranker, whatIf, theme }: Shown): void {
    const { pricePerHour } = ranker.view(whatIf)
    const points = historyOf(trials, byTrial, (t) => pricePerHour(t.configuration))
    chart.set(() => historyOption(points, against, whatIf.objective, theme))
    const last = points.findLast((p) => p.best !== undefined)
    const first = points.find((p) => p.best !== undefined && p.best === last?.best)
    chart.describe(
      first
        ? `Best so far: found in trial ${first.trial} of ${trials.length}`
        : 'No trial has met the SLO yet',
    )
  }
  return {
    element: h('div', {}, h('header', {}, h('h3', {}, 'Best so far'), choice), chart.element),
    show,
  }
}

function predictedAgainstMeasured(app: App): Part {
  const chart = trialChart(app, 'predictions', 'Predicted against measured')
  const element = h(
    'div',
    {},
    h('h3', {}, 'Predicted against measured'),
    chart.element,
    h(
      'p',
      { class: 'note' },
      'Predictions of the search before each trial, with 90 % intervals. Points on the diagonal were predicted exactly.',
    ),
  )
  function show({ trials, theme, experiment }: Shown): void {
    // What is believed of another quantity than a rate is not compared with rates.
    const rates = modelsCapacityOrLatency(experiment.objective)
    const pairs = trials.flatMap(({ number, predicted, ...t }) =>
      rates && predicted && t.state === 'complete' && t.measurement.capacityRps > 0
        ? [
            {
              trial: number,
              predicted: predicted.rate,
              low: predicted.low,
              high: predicted.high,
              measured: t.measurement.capacityRps,
            },
          ]
        : [],
    )
    element.hidden = pairs.length === 0
    if (pairs.length === 0) return
    chart.set(() => predictedOption(pairs, theme))
    const inside = pairs.filter((p) => p.measured >= p.low && p.measured <= p.high).length
    chart.describe(
      `${inside} of ${pairs.length} measurements lie within the predicted 90 % interval`,
    )
  }
  return { element, show }
}

/**
 * Asks the worker for the effects whenever what served has changed, and shows the last answer
 * meanwhile.
 */
function importanceAndEffects(app: App, around: ReturnType<typeof aroundTheBest>): Part {
  const importance = new Chart('importance', 'Importance of the parameters', 'small')
  const charts = new EffectCharts()
  const method = h('p', { class: 'note' })
  const few = h('p', { class: 'note' })
  const ranked = h(
    'div',
    { class: 'columns' },
    h('div', {}, h('h3', {}, 'Importance'), importance.element, method),
    h('div', {}, h('h3', {}, 'Effect on the capacity'), charts.element),
  )
  let asked = ''
  let answered = ''
  let known: Matters | undefined

  function draw(shown: Shown): void {
    const { theme } = shown
    around.show(shown, known?.around)
    ranked.hidden = known === undefined
    few.hidden = known !== undefined
    few.textContent =
      answered === asked
        ? 'Too few trials have met the SLO to estimate importance.'
        : 'Computing parameter importance.'
    if (!known) return
    const { effects } = known.effects
    importance.set(() => importanceOption(effects, theme))
    importance.describe(
      `Importance: ${effects.map((e) => `${e.parameter} ${percent(e.importance.median)}, ${percent(e.importance.low)} to ${percent(e.importance.high)}`).join('; ')}`,
    )
    charts.show(effects.slice(0, mostEffects), theme)
    fill(method, methodOf(known.effects))
  }
  function ask(shown: Shown): void {
    const served = servedPoints(shown)
    const [centre, pair] = [centreOf(shown), around.pair()]
    const { slo } = shown.whatIf
    const key = JSON.stringify([
      served.length,
      slo.limitMs,
      slo.percentile,
      served.at(-1)?.capacityRps,
      centre,
      pair,
    ])
    if (key === answered || (key === asked && !isPrinting()) || app.loading) return
    asked = key
    askForEffects(
      {
        parameters: shown.experiment.parameters,
        served,
        seed: shown.experiment.seed,
        centre,
        pair,
      },
      (answer) => {
        if (asked !== key || !app.shown) return
        known = answer
        answered = key
        draw(app.shown)
      },
    )
  }
  return {
    element: h('div', {}, few, ranked),
    show(shown) {
      draw(shown)
      ask(shown)
    },
  }
}

/** A chart for each parameter, kept from one showing to the next. */
class EffectCharts {
  readonly element = h('div', { class: 'effects' })
  private readonly charts = new Map<string, Chart>()

  show(effects: Effects['effects'], theme: Shown['theme']): void {
    const shown = effects.map((effect) => {
      const chart =
        this.charts.get(effect.parameter) ??
        new Chart(`effect-${effect.parameter}`, effect.parameter, 'small')
      this.charts.set(effect.parameter, chart)
      chart.set(() => effectOption(effect, theme))
      chart.describe(
        `Effect of ${effect.parameter}: ${effect.values.map((v) => `${v.value}: ${v.median.toFixed(2)} times the mean`).join(', ')}`,
      )
      return chart.element
    })
    const { element } = this
    if (
      element.childElementCount !== shown.length ||
      shown.some((e, i) => element.children[i] !== e)
    )
      fill(element, ...shown)
  }
}

const methodOf = ({ fitted, served }: Effects): string =>
  `Total-order Sobol index of the safe capacity, from a Gaussian process fitted to ${fitted === served ? `the ${served}` : `${fitted} of the ${served}`} configurations that met the SLO: medians and 90 % intervals over posterior samples. Interactions count for each parameter in them, so shares may sum to more than 100 %.`

/** In the order of trials, so that the model does not depend on the ranking. */
function servedPoints({ candidates }: Shown): ServedPoint[] {
  return candidates
    .filter((c) => c.capacityRps > 0 && c.bound !== 'upper')
    .sort((a, b) => a.trial - b.trial)
    .map(({ trial, configuration, capacityRps, capacityCi90Rps: [low, high] }) => ({
      trial,
      configuration,
      capacityRps,
      ...(low > 0 && Number.isFinite(high) && high > low
        ? { logSd: Math.log(high / low) / (2 * z90) }
        : {}),
    }))
}
