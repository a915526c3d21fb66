/** The Pareto chart, and on it the SLO as a line that can be dragged. */

import { money, rate, rateInterval, significant, sloName, sloValue } from '../../../format.ts'
import { conclusions } from '../../../recommendation/types.ts'
import { capacityText } from '../../../recommendation/words.ts'
import {
  type LatencyAxis,
  latencyAxis,
  paretoOption,
  type Throughput,
} from '../../charts/pareto-chart.ts'
import { deviceOf } from '../../ranking.ts'
import type { App } from '../app.ts'
import { Chart, type Hovered } from '../chart.ts'
import { h } from '../dom.ts'
import type { Section, Shown } from '../section.ts'
import { SloHandle } from './slo-handle.ts'

const curvesDrawn = 14

export function paretoSection(app: App): Section {
  let throughput: Throughput = 'per-dollar'
  let latencies: LatencyAxis = { type: 'log', logBase: 2, min: 1, max: 128 }
  const chart = new Chart(
    'pareto',
    'Latency against throughput',
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
  function show(shown: Shown): void {
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
      h('h2', {}, 'Throughput against latency, over all SLOs'),
      h(
        'fieldset',
        { class: 'switch' },
        h('legend', { class: 'unseen' }, 'Throughput'),
        choose('per-dollar', 'per dollar'),
        choose('per-second', 'per second'),
      ),
    ),
    chart.element,
    h(
      'p',
      { class: 'note' },
      'The bold steps are the front: what would win under each tighter or wider SLO. Each point is a configuration at the highest rate that keeps the SLO, with its 90 % interval; thin lines are its load curve, hollow points on it are modelled, not measured.',
      h(
        'span',
        { class: 'screen-only' },
        ' Drag the SLO line to ask for another SLO. Click a point to open its trial.',
      ),
    ),
  )
  return { element, update: show }
}

/** What a hover shows of a trial. */
export function hoverCard(shown: Shown, { value }: Hovered): HTMLElement | undefined {
  const number = value[value.length - 1]
  const trial = shown.trials.find((t) => t.number === number)
  if (!trial) return undefined
  const c = shown.byTrial.get(trial.number)
  const lines: [string, string][] = c
    ? [
        [
          'capacity',
          c.capacityRps > 0
            ? `${rate(c.capacityRps)} (${rateInterval(c.capacityCi90Rps)})`
            : c.bound === 'upper'
              ? capacityText(c)
              : 'none',
        ],
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
