/** One trial, whole: configuration, figures, load steps, usage, log. */
import { isImported } from '../../../../profiler/capacity/rederive/imported-loads.ts'
import { viewUnderSlo } from '../../../../profiler/capacity/rederive/stream-points.ts'
import { streamLatencies, streamLatencyNames } from '../../../../profiler/model/latency-metrics.ts'
import { haveSameLatency } from '../../../../profiler/model/slo.ts'
import { metricText } from '../../../../profiler/prometheus.ts'
import { computeJoulesPerRequest, modelsCapacityOrLatency } from '../../../../search/objective.ts'
import type { Configuration } from '../../../../search/types.ts'
import type { FinishedTrial, Usage } from '../../../../trials/types.ts'
import {
  energy,
  latency,
  money,
  percent,
  rate,
  rateInterval,
  significant,
  sloFigure,
  sloName,
} from '../../../format.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import { describeEngine, findEngineBinding } from '../../../recommendation/engine-binding.ts'
import type { TokenFigures } from '../../../recommendation/token-figures.ts'
import { latencyRows, rateRows, windowText } from '../../../recommendation/token-text.ts'
import {
  atCapacityValue,
  capacityText,
  estimateText,
  intervalName,
} from '../../../recommendation/words.ts'
import { isDrawn, percentilesOption } from '../../charts/curves-chart.ts'
import { annotationEditor } from '../annotation-editor.ts'
import type { App } from '../app.ts'
import { Chart } from '../chart.ts'
import { fill, h, table } from '../dom.ts'
import type { Shown } from '../section.ts'

interface Details {
  readonly element: HTMLDialogElement
  open(shown: Shown, number: number): void
}

/**
 * @param app says whether a server is there to ask for logs, and whether the page may write
 * @param opened told which trial is shown, and undefined when it is closed
 */
export function trialDetails(
  app: () => Pick<App, 'actions' | 'writable'>,
  opened: (number: number | undefined) => void,
): Details {
  const content = h('div', {})
  const close = h(
    'button',
    { attributes: { type: 'button', 'aria-label': 'Close' }, on: { click: () => element.close() } },
    'Close',
  )
  const previous = h(
    'button',
    { attributes: { type: 'button' }, on: { click: () => step(-1) } },
    '← previous',
  )
  const next = h(
    'button',
    { attributes: { type: 'button' }, on: { click: () => step(1) } },
    'next →',
  )
  const element = h(
    'dialog',
    {
      class: 'trial',
      attributes: { 'aria-labelledby': 'trial-title' },
      on: {
        click: (event) => event.target === element && element.close(),
        close: () => opened(undefined),
      },
    },
    h('nav', {}, previous, next, close),
    content,
  )
  let current: { shown: Shown; number: number } | undefined

  function step(by: number): void {
    if (!current) return
    const { shown, number } = current
    const at = shown.trials.findIndex((t) => t.number === number)
    const trial = shown.trials[at + by]
    if (trial) open(shown, trial.number)
  }

  function open(shown: Shown, number: number): void {
    const trial = shown.trials.find((t) => t.number === number)
    if (!trial) return
    current = { shown, number }
    const at = shown.trials.indexOf(trial)
    previous.disabled = at === 0
    next.disabled = at === shown.trials.length - 1
    const chart = latencyChart(shown, trial)
    const { actions, writable } = app()
    const editor = annotationEditor({ experimentId: shown.experiment.id, trial: number }, writable)
    editor.show(shown.annotations.get(number))
    fill(content, ...describe(shown, trial, actions.online, chart, editor.element))
    if (!element.open) element.showModal()
    chart?.draw()
    opened(number)
    element.scrollTop = 0
  }
  return { element, open }
}

/**
 * Every window of open load that its configuration was measured in, also when it was measured
 * again; undefined where there was none.
 */
function latencyChart(
  { byTrial, ranker, trials, whatIf, theme }: Shown,
  trial: FinishedTrial,
): Chart | undefined {
  if (trial.state !== 'complete') return undefined
  const candidate = byTrial.get(trial.number)
  const whole =
    (candidate && ranker.judged(trials, [candidate], whatIf)[0]?.measurement) ?? trial.measurement
  // Recorded latencies are those that the trial's own SLO counted.
  const { points } = haveSameLatency(whole.slo, whatIf.slo)
    ? whole
    : viewUnderSlo(whole, whatIf.slo)
  if (!points.some(isDrawn)) return undefined
  const chart = new Chart(
    `trial-${trial.number}`,
    `Latency percentiles of trial ${trial.number} by offered rate`,
    'small',
  )
  chart.set(() => percentilesOption(points, whatIf.slo, theme))
  return chart
}

function describe(
  shown: Shown,
  trial: FinishedTrial,
  online: boolean,
  chart: Chart | undefined,
  written: HTMLElement,
): HTMLElement[] {
  const { byTrial, ranker, whatIf, recommendation } = shown
  const candidate = byTrial.get(trial.number)
  const m = trial.state === 'complete' ? trial.measurement : undefined
  return [
    h(
      'h2',
      { attributes: { id: 'trial-title' } },
      `Trial ${trial.number}: ${ranker.label(trial.configuration)}`,
    ),
    h('p', { class: 'outcome' }, outcomeOf(shown, trial)),
    h(
      'p',
      { class: 'note' },
      `Tried because: ${trial.why}. Started ${trial.startedAt.slice(0, 19).replace('T', ' ')} UTC, took ${significant(trial.seconds)} s.`,
    ),
    written,
    ...(m
      ? [h('h3', {}, 'Latency by load'), chart?.element ?? h('p', { class: 'note' }, noWindow)]
      : []),
    facts([
      ...Object.entries(trial.configuration).map(([name, value]) => [name, String(value)] as const),
      ...(candidate?.quality === undefined
        ? []
        : [['quality', String(candidate.quality)] as const]),
      [
        'price',
        `${money(candidate?.pricePerHour ?? ranker.view(whatIf).pricePerHour(trial.configuration))} / h`,
      ],
      ...(candidate && candidate.capacityRps > 0
        ? ([
            ['status', describeStatus(candidate.status, recommendation.provenance).name],
            [
              'safe capacity',
              `${capacityText(candidate)}${candidate.derived ? ', read from the load curve' : ''}`,
            ],
            candidate.estimateRps === undefined
              ? ([
                  `interval (${intervalName(candidate)})`,
                  rateInterval(candidate.capacityCi90Rps),
                ] as const)
              : (['estimate [90 %]', estimateText(candidate)] as const),
            [
              sloName(whatIf.slo),
              `${atCapacityValue(whatIf.slo, candidate)}, at the safe capacity`,
            ],
            ...(candidate.tokens ? tokenFacts(candidate.tokens) : []),
          ] as const)
        : []),
      ...(m
        ? ([
            ...(Number.isNaN(m.unloaded.p99Ms)
              ? []
              : [
                  [
                    'unloaded latency',
                    [0.5, 0.99]
                      .map((q) =>
                        sloFigure(
                          { ...m.slo, percentile: q },
                          q === 0.5 ? m.unloaded.p50Ms : m.unloaded.p99Ms,
                        ),
                      )
                      .join(', '),
                  ] as const,
                ]),
            ...(isImported(m)
              ? [['results of', m.detail ?? ''] as const]
              : [
                  ['saturated at', `${rate(m.saturationRps)} in a closed loop`] as const,
                  [
                    'capacity search',
                    `${m.outcome}${m.detail ? `: ${m.detail}` : ''}, ${m.requests.toLocaleString('en-US')} requests`,
                  ] as const,
                ]),
          ] as const)
        : []),
      ...metricFacts(trial),
      ...(trial.predicted && modelsCapacityOrLatency(shown.experiment.objective)
        ? ([
            [
              'predicted',
              `${rate(trial.predicted.rate)} (${significant(trial.predicted.low)} to ${significant(trial.predicted.high)})`,
            ],
          ] as const)
        : []),
      ...usage(trial),
    ]),
    ...(m ? [h('h3', {}, 'Load steps'), loadSteps(trial, m.points)] : []),
    ...(m && m.caveats.length > 0
      ? [h('ul', { class: 'caveats' }, ...m.caveats.map((c) => h('li', {}, c)))]
      : []),
    ...(m?.points.some((point) => point.latencies) && online
      ? [latenciesLink(shown.experiment.id, trial.number)]
      : []),
    ...(trial.logPath && online ? [logOf(shown.experiment.id, trial.number)] : []),
  ]
}

const noWindow =
  'There is no open-loop window to show: this trial was measured only in a closed loop, or the load generator could not keep up.'

function outcomeOf({ recommendation: r, byTrial }: Shown, trial: FinishedTrial): string {
  if (trial.state === 'failed') return `Not measured: ${trial.error}`
  if (trial.state === 'infeasible') return `Cannot serve (${trial.reason}): ${trial.detail}`
  if (trial.purpose === 'confirmation') return 'Second load test of the winner.'
  if (trial.number === r.best?.trial)
    return r.conclusion === 'unconfirmed' ? 'Best found, NOT confirmed.' : 'Recommended.'
  const other = r.alternatives.find((a) => a.trial === trial.number)
  if (other) return `${describeStatus(other.status, r.provenance).name}: ${other.whyNot}.`
  return byTrial.has(trial.number) ? 'Nearest to the SLO.' : 'Measured again later.'
}

const tokenFacts = (figures: TokenFigures): (readonly [string, string])[] => [
  ...latencyRows(figures).map(
    ([name, ...rest]) =>
      [`${name} p50, p90, p99`, `${rest.join(', ')} ${windowText(figures)}`] as const,
  ),
  ...rateRows(figures),
]

/** Of the server's own, at the rate that they were read at. */
const metricFacts = (trial: FinishedTrial): (readonly [string, string])[] =>
  trial.state !== 'complete'
    ? []
    : (trial.measurement.metrics ?? []).map((reading) => [
        metricText(reading),
        `${Number.isFinite(reading.value ?? Number.NaN) ? significant(reading.value) : 'not known'} at ${rate(trial.measurement.capacityRps)}${reading.max === undefined ? '' : `, limit ${reading.max}`}`,
      ])

function usage(trial: FinishedTrial): (readonly [string, string])[] {
  const { usage: u = {} } = trial
  const joules =
    trial.state === 'complete'
      ? computeJoulesPerRequest(u, trial.measurement.capacityRps)
      : undefined
  return [
    ...(u.nodeWaitSeconds === undefined
      ? []
      : [['wait for a node', `${significant(u.nodeWaitSeconds)} s`] as const]),
    ...(u.prepareSeconds === undefined
      ? []
      : [['preparation time', `${significant(u.prepareSeconds)} s`] as const]),
    ...(u.launchSeconds === undefined
      ? []
      : [['ready after', `${significant(u.launchSeconds)} s`] as const]),
    ...(u.cpuCores === undefined ? [] : [['cores busy', significant(u.cpuCores)] as const]),
    ...(u.gpuUtilization === undefined ? [] : [['GPU busy', percent(u.gpuUtilization)] as const]),
    ...(u.gpuMemoryMiB === undefined
      ? []
      : [['GPU memory', `${significant(u.gpuMemoryMiB)} MiB`] as const]),
    ...(u.peakRssMiB === undefined
      ? []
      : [['memory', `${significant(u.peakRssMiB)} MiB`] as const]),
    ...(u.gpuWatts === undefined ? [] : [['GPU power', `${significant(u.gpuWatts)} W`] as const]),
    ...(u.cpuWatts === undefined ? [] : [['CPU power', `${significant(u.cpuWatts)} W`] as const]),
    ...(joules === undefined ? [] : [['energy per request', `at most ${energy(joules)}`] as const]),
    ...(u.realisedBatch === undefined
      ? []
      : [['realised batch', significant(u.realisedBatch)] as const]),
    ...(u.sequences === undefined ? [] : [['peak use', busiest(u, trial.configuration)] as const]),
  ]
}

function busiest(used: Usage, configuration: Configuration): string {
  const engine = findEngineBinding(used, configuration)
  return engine === undefined
    ? describeEngine(used, configuration)
    : `${engine.what}: ${engine.evidence}`
}

const facts = (rows: readonly (readonly [string, string])[]): HTMLElement =>
  h(
    'dl',
    { class: 'facts' },
    ...rows.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
  )

type Points = readonly (FinishedTrial & { state: 'complete' })['measurement']['points'][number][]

function loadSteps(trial: FinishedTrial, points: Points): HTMLElement {
  const streamed = points.some((p) => p.stream)
  const joint = points.some((p) => p.joint)
  const names = streamed
    ? streamLatencyNames.flatMap((name) => [`${streamLatencies[name].title} p50`, 'p90', 'p99'])
    : ['p50', 'p90', 'p95', 'p99']
  const latencies = (p: Points[number]) =>
    p.stream
      ? streamLatencyNames.flatMap((name) => [
          p.stream![name].p50Ms,
          p.stream![name].p90Ms,
          p.stream![name].p99Ms,
        ])
      : streamed
        ? names.map(() => Number.NaN)
        : [p.p50Ms, p.p90Ms, p.p95Ms, p.p99Ms]
  const heads = [
    'load',
    'offered',
    'answered',
    ...(joint ? ['good'] : []),
    ...(streamed ? ['output tok/s'] : []),
    ...names,
    'errors',
    'seconds',
  ]
  return table(
    heads,
    points.map((p) => [
      `${p.load.kind}${p.cut ? ', cut short' : ''}${p.generatorSaturated ? ', generator late' : ''}`,
      significant(p.offeredRps),
      significant(p.achievedRps),
      ...(joint ? [p.joint ? percent(p.joint.good) : ''] : []),
      ...(streamed ? [p.stream ? significant(p.stream.outputTokensPerSecond) : ''] : []),
      ...latencies(p).map((ms) => (Number.isNaN(ms) && p.requests === 0 ? '' : latency(ms))),
      p.errors === 0
        ? '0'
        : `${p.errors}: ${Object.entries(p.errorKinds)
            .map(([kind, n]) => `${kind} ${n}`)
            .join(', ')}`,
      Number.isNaN(p.seconds) ? '' : significant(p.seconds),
    ]),
    heads.flatMap((name, i) => (name === 'load' || name === 'errors' ? [] : [i])),
    `Load steps of trial ${trial.number}`,
  )
}

const latenciesLink = (id: string, number: number): HTMLElement =>
  h(
    'p',
    {},
    h(
      'a',
      {
        class: 'button',
        attributes: {
          href: `/api/experiments/${encodeURIComponent(id)}/trials/${number}/latencies.hlog`,
          download: true,
        },
      },
      'Latencies of every load step (HDR histogram log)',
    ),
  )

function logOf(id: string, number: number): HTMLElement {
  const text = h('pre', { class: 'log', attributes: { tabindex: 0 } }, 'loading')
  const details = h('details', {}, h('summary', {}, 'Log of the predictor'), text)
  details.addEventListener(
    'toggle',
    () => {
      fetch(`/api/experiments/${encodeURIComponent(id)}/trials/${number}/log`)
        .then(async (answer) => {
          text.textContent = (await answer.text()) || '(empty)'
        })
        .catch((error: Error) => {
          text.textContent = `the log could not be read: ${error.message}`
        })
    },
    { once: true },
  )
  return details
}
