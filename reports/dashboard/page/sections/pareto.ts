/** The Pareto chart, and on it the SLO as a line that can be dragged. */

import { money, rate, significant, sloName, sloValue } from '../../../format.ts'
import { conclusions, type Recommendation } from '../../../recommendation/types.ts'
import { verdictLines } from '../../../recommendation/verdict-lines.ts'
import { capacityText, estimateText } from '../../../recommendation/words.ts'
import {
  type LatencyAxis,
  latencyAxis,
  paretoOption,
  type Throughput,
} from '../../charts/pareto-chart.ts'
import { deviceOf } from '../../ranking.ts'
import type { App } from '../app.ts'
import { Chart, type Hovered } from '../chart.ts'
import { fill, h } from '../dom.ts'
import type { Section, Shown } from '../section.ts'
import { SloHandle } from './slo-handle.ts'

const curvesDrawn = 14

export function paretoSection(app: App): Section {
  let throughput: Throughput = 'per-dollar'
  let latencies: LatencyAxis = { type: 'log', logBase: 2, min: 1, max: 128 }
  const chart = new Chart(
    'pareto',
    'Throughput against latency',
    'tall',
    (item) => app.shown && hoverCard(app.shown, item),
  )
  const handle = new SloHandle(app, chart, () => latencies)
  chart.onClick((item) => {
    const trial = item.value[2]
    if (trial !== undefined) app.actions.openTrial(trial)
  })

  const choose = (value: Throughput, text: string) => {
    const input = h('input', {
      attributes: { type: 'radio', name: 'throughput', value, checked: value === throughput },
    })
    input.addEventListener('change', () => {
      throughput = value
      if (app.shown) show(app.shown)
    })
    return h('label', {}, input, text)
  }
  const winner = h('p', { class: 'winner', attributes: { 'aria-live': 'polite' } })
  function show(shown: Shown): void {
    showWinner(winner, shown.recommendation)
    const { recommendation: r, candidates, trials, whatIf, devices, theme, ranker } = shown
    if (!handle.held) latencies = latencyAxis(trials, r.slo)
    const drawn = candidates.filter((c) => c.capacityRps > 0).slice(0, curvesDrawn)
    chart.set((still) =>
      paretoOption(
        {
          recommendation: r,
          trials,
          latencies,
          curves: ranker.judged(trials, drawn, whatIf),
          throughput,
          devices,
          still,
        },
        theme,
      ),
    )
    chart.describe(
      `Pareto chart of ${candidates.length} configurations. ${r.best ? `Recommended: ${r.best.label}, ${rate(r.best.capacityRps)}.` : `${conclusions[r.conclusion]}.`} Front: ${r.front.map((c) => `${sloValue(r.slo, c.sloMsAtCapacity)}: ${rate(c.capacityRps)} for ${money(c.pricePerHour)} per hour`).join('; ')}`,
    )
    handle.place()
  }
  const element = h(
    'section',
    { attributes: { id: 'pareto', 'aria-label': 'Pareto front' } },
    h(
      'header',
      {},
      h('h2', {}, 'Throughput against latency'),
      h(
        'fieldset',
        { class: 'switch' },
        h('legend', { class: 'unseen' }, 'Throughput'),
        choose('per-dollar', 'per dollar'),
        choose('per-second', 'per second'),
      ),
    ),
    winner,
    chart.element,
    h(
      'p',
      { class: 'note' },
      'Up and left is better. Points: configurations at their safe capacity, with 90 % intervals of throughput and, where measured, 95 % intervals of latency. Bold steps: Pareto front. Thin lines: load curves; hollow points on them are modelled.',
      h('span', { class: 'screen-only' }, ' Drag the SLO line, or click a point for its trial.'),
    ),
  )
  return { element, update: show }
}

/** The recommended configuration and its figures, beside the line that is dragged. */
function showWinner(element: HTMLElement, r: Recommendation): void {
  const { heading, subject, figures } = verdictLines(r)
  fill(
    element,
    h('strong', {}, heading ? `${heading}: ${subject}` : subject),
    figures === undefined ? '' : ` ${figures}`,
  )
}

/** What a hover shows of a trial. */
export function hoverCard(shown: Shown, { value }: Hovered): HTMLElement | undefined {
  const number = value[value.length - 1]
  const trial = shown.trials.find((t) => t.number === number)
  if (!trial) return undefined
  const c = shown.byTrial.get(trial.number)
  const lines: [string, string][] = c
    ? [
        ['safe capacity', c.capacityRps > 0 || c.bound === 'upper' ? capacityText(c) : 'none'],
        ...(c.estimateRps === undefined
          ? []
          : [['estimate [90 %]', estimateText(c)] as [string, string]]),
        [sloName(shown.whatIf.slo), sloValue(shown.whatIf.slo, c.sloMsAtCapacity)],
        ...(c.quality === undefined ? [] : [['quality', String(c.quality)] as [string, string]]),
        ...(c.tokens
          ? [
              ['output', `${significant(c.tokens.outputTokensPerSecond)} tokens/s`] as [
                string,
                string,
              ],
            ]
          : []),
        ['price', `${money(c.pricePerHour)} / h`],
        ...(c.capacityRps > 0
          ? [['per million', money(c.pricePerMillionRequests)] as [string, string]]
          : []),
        ...(c.tokens
          ? [
              ['per million output tokens', money(c.tokens.pricePerMillionOutputTokens)] as [
                string,
                string,
              ],
            ]
          : []),
        ...(c.reason ? [['why not', c.reason] as [string, string]] : []),
      ]
    : [
        ['state', trial.purpose ?? trial.state],
        ['took', `${significant(trial.seconds)} s`],
      ]
  return h(
    'div',
    { class: 'card' },
    h('strong', {}, `Trial ${trial.number}`),
    h('span', {}, c?.label ?? shown.ranker.label(trial.configuration)),
    h('dl', {}, ...lines.map(([name, text]) => [h('dt', {}, name), h('dd', {}, text)])),
    h('small', {}, deviceOf(trial.configuration)),
  )
}
