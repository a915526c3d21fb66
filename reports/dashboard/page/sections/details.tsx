/** One trial, whole: configuration, figures, load steps, usage, log. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { isImported } from '../../../../profiler/capacity/rederive/imported-loads.ts'
import { viewUnderSlo } from '../../../../profiler/capacity/rederive/stream-points.ts'
import { streamLatencies, streamLatencyNames } from '../../../../profiler/model/latency-metrics.ts'
import type { Measurement } from '../../../../profiler/model/measurement.ts'
import { haveSameLatency } from '../../../../profiler/model/slo.ts'
import { formatMetric } from '../../../../profiler/prometheus.ts'
import { computeJoulesPerRequest, modelsCapacityOrLatency } from '../../../../search/objective.ts'
import type { Configuration } from '../../../../search/types.ts'
import type { FinishedTrial, Usage } from '../../../../trials/types.ts'
import {
  formatEnergy,
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
import { formatWindow, listLatencyRows, rateRows } from '../../../recommendation/token-text.ts'
import type { Candidate } from '../../../recommendation/types.ts'
import {
  estimateText,
  formatCapacity,
  formatLatencyValue,
  nameInterval,
} from '../../../recommendation/words.ts'
import { createPercentilesOption, isDrawn } from '../../charts/curves-chart.ts'
import { AnnotationEditor } from '../annotation-editor.tsx'
import type { Answer } from '../answer.ts'
import { Chart } from '../chart.tsx'
import { type Fact, Facts, Table } from '../elements.tsx'
import { useApp, useLiveApp } from '../section.tsx'

/** The trial that is open, over the page. */
export function TrialDialog() {
  const app = useLiveApp()
  const dialog = useRef<HTMLDialogElement>(null)
  const { answer } = app
  const at =
    app.trial === undefined
      ? -1
      : (answer?.trials.findIndex(({ number }) => number === app.trial) ?? -1)
  const trial = answer?.trials[at]
  useLayoutEffect(() => {
    if (trial && !dialog.current!.open) dialog.current!.showModal()
    if (!trial) dialog.current!.close()
    dialog.current!.scrollTop = 0
  }, [trial?.number])
  const step = (by: number) => (
    <button
      type="button"
      disabled={!answer?.trials[at + by]}
      onClick={() => app.openTrial(answer?.trials[at + by]?.number)}
    >
      {by < 0 ? '← previous' : 'next →'}
    </button>
  )
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a dialog closes by the Escape key of itself
    <dialog
      ref={dialog}
      class="trial"
      aria-labelledby="trial-title"
      onClick={({ target, currentTarget }) => target === currentTarget && currentTarget.close()}
      onClose={() => app.openTrial(undefined)}
    >
      <nav>
        {step(-1)}
        {step(1)}
        <button type="button" aria-label="Close" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </nav>
      {answer && trial && <TrialDetails key={trial.number} answer={answer} trial={trial} />}
    </dialog>
  )
}

function TrialDetails({ answer, trial }: { answer: Answer; trial: FinishedTrial }) {
  const app = useApp()
  const { number } = trial
  const experimentId = answer.experiment.id
  const m = trial.state === 'complete' ? trial.measurement : undefined
  return (
    <div>
      <h2 id="trial-title">{`Trial ${number}: ${answer.ranker.label(trial.configuration)}`}</h2>
      <p class="outcome">{describeOutcome(answer, trial)}</p>
      <p class="note">
        {`Tried because: ${trial.why}. Started ${trial.startedAt.slice(0, 19).replace('T', ' ')} UTC, took ${significant(trial.seconds)} s.`}
      </p>
      <AnnotationEditor
        place={{ experimentId, trial: number }}
        annotation={answer.annotations.get(number)}
        isWritable={answer.isWritable}
        changed={(after) => app.setAnnotation(number, after)}
      />
      {m && <LatencyByLoad answer={answer} trial={trial} />}
      <Facts class="facts" facts={listFacts(answer, trial)} />
      {m && (
        <>
          <h3>Load steps</h3>
          <LoadSteps trial={trial} points={m.points} />
        </>
      )}
      {m && m.caveats.length > 0 && (
        <ul class="caveats">
          {m.caveats.map((text) => (
            <li>{text}</li>
          ))}
        </ul>
      )}
      {app.online && m?.points.some((point) => point.latencies) && (
        <p>
          <a class="button" href={`${buildTrialUrl(experimentId, number)}/latencies.hlog`} download>
            Latencies of every load step (HDR histogram log)
          </a>
        </p>
      )}
      {app.online && trial.logPath && <Log url={`${buildTrialUrl(experimentId, number)}/log`} />}
    </div>
  )
}

const buildTrialUrl = (experimentId: string, trial: number): string =>
  `/api/experiments/${encodeURIComponent(experimentId)}/trials/${trial}`

function LatencyByLoad({ answer, trial }: { answer: Answer; trial: FinishedTrial }) {
  const { whatIf, theme } = answer
  const points = listWindows(answer, trial)
  return (
    <>
      <h3>Latency by load</h3>
      {points.some(isDrawn) ? (
        <Chart
          name={`trial-${trial.number}`}
          altText={`Latency percentiles of trial ${trial.number} by offered rate`}
          size="small"
          createOption={() => createPercentilesOption(points, whatIf.slo, theme)}
        />
      ) : (
        <p class="note">
          There is no open-loop window to show: this trial was measured only in a closed loop, or
          the load generator could not keep up.
        </p>
      )}
    </>
  )
}

/**
 * Lists every window that the trial's configuration was measured in, also when it was measured
 * again.
 */
function listWindows({ byTrial, ranker, trials, whatIf }: Answer, trial: FinishedTrial): Points {
  if (trial.state !== 'complete') return []
  const candidate = byTrial.get(trial.number)
  const whole =
    (candidate && ranker.addMeasurements(trials, [candidate], whatIf)[0]?.measurement) ??
    trial.measurement
  // Recorded latencies are those that the trial's own SLO counted.
  return haveSameLatency(whole.slo, whatIf.slo)
    ? whole.points
    : viewUnderSlo(whole, whatIf.slo).points
}

function listFacts(answer: Answer, trial: FinishedTrial): readonly Fact[] {
  const { byTrial, ranker, whatIf, experiment } = answer
  const candidate = byTrial.get(trial.number)
  const pricePerHour =
    candidate?.pricePerHour ?? ranker.createCriteria(whatIf).pricePerHour(trial.configuration)
  const { predicted } = trial
  return [
    ...Object.entries(trial.configuration).map(([name, value]): Fact => [name, String(value)]),
    ['quality', candidate?.quality?.toString()],
    ['price', `${money(pricePerHour)} / h`],
    ...(candidate && candidate.capacityRps > 0 ? listCapacityFacts(candidate, answer) : []),
    ...(trial.state === 'complete' ? listMeasurementFacts(trial.measurement) : []),
    [
      'predicted',
      predicted &&
        modelsCapacityOrLatency(experiment.objective) &&
        `${rate(predicted.rate)} (${significant(predicted.low)} to ${significant(predicted.high)})`,
    ],
    ...listUsageFacts(trial),
  ]
}

const listCapacityFacts = (c: Candidate, { whatIf: { slo }, recommendation }: Answer): Fact[] => [
  ['status', describeStatus(c.status, recommendation.provenance).name],
  ['safe capacity', `${formatCapacity(c)}${c.derived ? ', read from the load curve' : ''}`],
  c.estimateRps === undefined
    ? [`interval (${nameInterval(c)})`, rateInterval(c.capacityCi90Rps)]
    : ['estimate [90 %]', estimateText(c)],
  [sloName(slo), `${formatLatencyValue(slo, c)}, at the safe capacity`],
  ...(c.tokens ? listTokenFacts(c.tokens) : []),
]

function listTokenFacts(figures: TokenFigures): Fact[] {
  const latencies = listLatencyRows(figures).map(
    ([name, ...rest]): Fact => [
      `${name} p50, p90, p99`,
      `${rest.join(', ')} ${formatWindow(figures)}`,
    ],
  )
  return [...latencies, ...rateRows(figures)]
}

function listMeasurementFacts(m: Measurement): Fact[] {
  const { p50Ms, p99Ms } = m.unloaded
  const unloaded = [
    sloFigure({ ...m.slo, percentile: 0.5 }, p50Ms),
    sloFigure({ ...m.slo, percentile: 0.99 }, p99Ms),
  ]
  const detail = m.detail ? `: ${m.detail}` : ''
  return [
    ['unloaded latency', !Number.isNaN(p99Ms) && unloaded.join(', ')],
    ...(isImported(m)
      ? ([['results of', m.detail ?? '']] as const)
      : ([
          ['saturated at', `${rate(m.saturationRps)} in a closed loop`],
          [
            'capacity search',
            `${m.outcome}${detail}, ${m.requests.toLocaleString('en-US')} requests`,
          ],
        ] as const)),
    // The server's own metrics, at the rate that they were read at.
    ...(m.metrics ?? []).map((reading): Fact => {
      const isKnown = Number.isFinite(reading.value ?? Number.NaN)
      const limit = reading.max === undefined ? '' : `, limit ${reading.max}`
      return [
        formatMetric(reading),
        `${isKnown ? significant(reading.value) : 'not known'} at ${rate(m.capacityRps)}${limit}`,
      ]
    }),
  ]
}

function describeOutcome({ recommendation: r, byTrial }: Answer, trial: FinishedTrial): string {
  if (trial.state === 'failed') return `Not measured: ${trial.error}`
  if (trial.state === 'infeasible') return `Cannot serve (${trial.reason}): ${trial.detail}`
  if (trial.purpose === 'confirmation') return 'Second load test of the winner.'
  if (trial.number === r.best?.trial)
    return r.conclusion === 'unconfirmed' ? 'Best found, NOT confirmed.' : 'Recommended.'
  const other = r.alternatives.find((a) => a.trial === trial.number)
  if (other) return `${describeStatus(other.status, r.provenance).name}: ${other.whyNot}.`
  return byTrial.has(trial.number) ? 'Nearest to the SLO.' : 'Measured again later.'
}

function listUsageFacts(trial: FinishedTrial): Fact[] {
  const { usage: u = {} } = trial
  const joules =
    trial.state === 'complete'
      ? computeJoulesPerRequest(u, trial.measurement.capacityRps)
      : undefined
  const figure = (value: number | undefined, unit = '') =>
    value === undefined ? undefined : `${significant(value)}${unit}`
  return [
    ['wait for a node', figure(u.nodeWaitSeconds, ' s')],
    ['preparation time', figure(u.prepareSeconds, ' s')],
    ['ready after', figure(u.launchSeconds, ' s')],
    ['cores busy', figure(u.cpuCores)],
    ['GPU busy', u.gpuUtilization === undefined ? undefined : percent(u.gpuUtilization)],
    ['GPU memory', figure(u.gpuMemoryMiB, ' MiB')],
    ['memory', figure(u.peakRssMiB, ' MiB')],
    ['GPU power', figure(u.gpuWatts, ' W')],
    ['CPU power', figure(u.cpuWatts, ' W')],
    ['energy per request', joules === undefined ? undefined : `at most ${formatEnergy(joules)}`],
    ['realised batch', figure(u.realisedBatch)],
    ['peak use', u.sequences === undefined ? undefined : findBusiest(u, trial.configuration)],
  ]
}

function findBusiest(used: Usage, configuration: Configuration): string {
  const engine = findEngineBinding(used, configuration)
  return engine === undefined
    ? describeEngine(used, configuration)
    : `${engine.what}: ${engine.evidence}`
}

type Points = Measurement['points']

function LoadSteps({ trial, points }: { trial: FinishedTrial; points: Points }) {
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
  const rows = points.map((p) => [
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
  ])
  return (
    <Table
      caption={`Load steps of trial ${trial.number}`}
      head={heads}
      numeric={heads.flatMap((name, i) => (name === 'load' || name === 'errors' ? [] : [i]))}
      rows={rows}
    />
  )
}

/** The predictor's log, fetched when it is unfolded. */
function Log({ url }: { url: string }) {
  const [text, setText] = useState<string>()
  const fetchLog = () =>
    fetch(url)
      .then(async (answer) => setText((await answer.text()) || '(empty)'))
      .catch((error: Error) => setText(`the log could not be read: ${error.message}`))
  return (
    <details onToggle={() => text === undefined && void fetchLog()}>
      <summary>Log of the predictor</summary>
      <pre class="log" tabIndex={0}>
        {text ?? 'loading'}
      </pre>
    </details>
  )
}
