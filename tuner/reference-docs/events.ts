/**
 * docs/reference/events.md: what `--events` prints and `onEvent` receives. The tables follow the
 * types: an event or a field without a sentence does not compile.
 */
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type {
  CapacityOutcome,
  IntervalRule,
  Measurement,
} from '../../profiler/model/measurement.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { StopReason, TuneEvent } from '../loop/events.ts'
import { code, table } from './markdown.ts'

type EventType = TuneEvent['type']
type KeysOfUnion<T> = T extends T ? keyof T : never
type Sentences<Names extends PropertyKey> = { readonly [Name in Names]: string }

type EventSentences = {
  readonly [Type in EventType]: {
    readonly when: string
    readonly fields: Sentences<Exclude<keyof Extract<TuneEvent, { type: Type }>, 'at' | 'type'>>
  }
}

const number = 'Number of the trial, from 1.'
const label = 'The configuration in words, for example `2 cores, 1/4 T4 (4 GiB), batch 8`.'
const pricePerHour = 'Price of one replica, $ per hour.'

const events: EventSentences = {
  'experiment-started': {
    when: 'First event of a run.',
    fields: {
      experimentId: 'Id of the experiment, as `tune list` prints it.',
      name: 'Name of the experiment.',
      provenance: '`measured`, `emulated` or `simulated`: where the figures of this run come from.',
      seed: 'Random seed.',
      slo: 'The SLO, in the form of [`recommendation.json`](results.md#slo).',
      maxTrials: 'Maximum number of trials.',
      spaceSize: 'Number of configurations in the space; null for a continuous space.',
      notices:
        'What a reader must know first: what is emulated, from which data, with which error.',
      resumedTrials: 'Trials of an earlier run of the same experiment.',
      countedTrials:
        'Those of them that count towards `maxTrials`: no failed ones, no confirmations.',
      confirmSeconds: 'Seconds of a confirmation; absent when there is none.',
    },
  },
  'trial-started': {
    when: 'A configuration is about to be launched.',
    fields: {
      number,
      attempt: 'Number of the attempt at this configuration, from 1.',
      suggestion:
        'The `configuration`, `why` it was chosen, and `predicted`: rate, 90 % interval and probability to serve.',
      label,
      pricePerHour,
    },
  },
  'predictor-ready': {
    when: 'The server of a trial is ready and gave one good answer.',
    fields: {
      number,
      isolation: 'How its resources are enforced, in words.',
      seconds: 'Seconds since the trial began, its `prepare` step included.',
      prepared:
        'Seconds of the `prepare` step, and whether its result was reused (`kept`); absent without one.',
      ahead: 'true: it was started while another trial was measured.',
    },
  },
  'load-step': {
    when: 'One load of a trial ended.',
    fields: {
      number,
      point: 'The [load point](#load-point).',
      sloMs: 'Limit of the SLO, ms.',
      phase: '`warm-up`, `idle`, `saturation`, `search`, `curve` or `confirm`.',
    },
  },
  'trial-finished': {
    when: 'A trial ended, with or without a result.',
    fields: {
      trial: 'The [trial](#trial).',
      label,
      pricePerHour,
      retry: 'true: the trial failed and runs again.',
      spent: 'Price of all trials so far, $.',
    },
  },
  'best-changed': {
    when: 'Another configuration is the best so far.',
    fields: {
      number,
      label,
      costLabel: 'Its cost in words.',
    },
  },
  'stop-assessed': {
    when: 'The stop rule was evaluated.',
    fields: {
      assessment:
        '`probabilityBetterExists`: that an untried configuration is better by more than `tolerance`; `stop`: whether the search ends; `outlook`: expected gains.',
      afterTrials: 'Trials so far.',
      trialsLeft: 'Predicted number of further trials; absent when it cannot be predicted.',
    },
  },
  confirming: {
    when: 'A confirmation begins.',
    fields: {
      number,
      configuration: 'Parameter to value.',
      label,
    },
  },
  confirmed: {
    when: 'A confirmation ended.',
    fields: {
      number,
      met: 'Whether the SLO was met at `rateRps`.',
      rateRps: 'The rate, requests per second; after a violation the lowest rate that was tried.',
      sloMs: 'SLO percentile at that rate, ms.',
    },
  },
  warning: {
    when: 'Something that a reader of the result must know.',
    fields: { message: 'A sentence.' },
  },
  stopped: {
    when: 'The search ended.',
    fields: {
      reason: 'A [stop reason](#stop-reasons).',
      detail: 'The evidence, in words.',
    },
  },
  recommended: {
    when: 'Last event of a run that ends with a recommendation.',
    fields: {
      recommendation:
        'The recommendation, as in [`recommendation.json`](results.md#recommendationjson), with the whole trial in `confirmation.trial`.',
      files: 'Paths of the result files.',
    },
  },
}

const stopReasons: Sentences<StopReason> = {
  certain: 'No untried configuration is likely to be better by more than the tolerance.',
  'not-worthwhile': 'A further trial would cost more than it may save.',
  'max-trials': 'The maximum number of trials is reached.',
  'time-limit': 'The time limit is reached.',
  budget: 'The trials have cost what they may cost.',
  'space-exhausted': 'Every configuration was tried.',
  'slo-unattainable': 'No configuration can meet the SLO.',
  'machine-busy': 'Other work on the machine disturbed too many trials.',
  interrupted: 'Ctrl-C, SIGTERM or an aborted signal.',
  failed: 'No predictor ever served, or trials failed one after another.',
}

const trial: Sentences<KeysOfUnion<FinishedTrial>> = {
  number,
  configuration: 'Parameter to value.',
  why: 'Why the configuration was chosen.',
  purpose: '`default` (the baseline) or `confirmation`; absent: a trial of the search.',
  predicted: 'What the search predicted: rate, 90 % interval, probability to serve.',
  startedAt: 'ISO 8601.',
  state: '`complete`, `infeasible` (it cannot serve) or `failed` (it could not be measured).',
  measurement: 'complete: the [measurement](#measurement).',
  reason:
    'infeasible: `out-of-memory`, `never-ready`, `no-such-gpu`, `crashed`, `requests-fail`, `answers-differ`, `over-bound` or `slo-unattainable`.',
  detail: 'infeasible: the evidence, in words.',
  error: 'failed: what went wrong.',
  final:
    'failed: a further attempt would fail too, for this `configuration`, this `run` or the whole `experiment`.',
  seconds: 'Seconds of preparation, launch, load and stop.',
  usage: 'What the server used, as in [`recommendation.json`](results.md#configuration).',
  logPath: "Path of the server's log.",
  served: 'true: the trial did not complete, but its server was ready and answered.',
}

const intervalRules: Sentences<IntervalRule> = {
  'observed throughput': 'The model extrapolated: its estimate is capped near what was served.',
  'closed loops': 'Open windows were slower than closed loops: the lower end falls by that share.',
  'system capacity': 'Refusals allow several queue lengths: the interval covers all of them.',
  'model misfit':
    'The service discipline is unknown, or another one than declared: the interval is wider by the error of the general queue model.',
  'CPU quota': 'The server waited for CPU quota: the interval is wider by the error of the model.',
  windows:
    'The lower end is a rate that met the SLO, the upper end no lower than one that surely did.',
  'failing rate': 'Requests fail from a rate on: it bounds the capacity.',
  'token bucket': 'A rate limit was identified: the capacity is the rate that it lets through.',
  refusals: 'Requests were refused for an unknown reason: the lower end allows for that.',
  'no window met': 'No window met the SLO: only an upper bound is known.',
  pruned: 'The trial was stopped early, as it cannot win: only an upper bound is known.',
  'lower bound only': 'The generator or the server ended the search: only a met rate is known.',
  unproven: 'A confirmation met the SLO without a proof: the lower end is 5 % lower.',
  interpolation:
    'Read off the load curve for another SLO: the interval is wider, to allow for the interpolation.',
  'end of the load curve':
    'No measured rate exceeds the limit: the upper end is at least the saturation.',
}

const measurement: Sentences<keyof Measurement> = {
  outcome: 'How the capacity search ended: an [outcome](#outcome).',
  capacityRps: 'Estimate of the capacity, requests per second.',
  capacityCi90Rps: '90 % interval of the capacity.',
  bounds: 'Which bounds of the capacity are known: `both`, `lower`, `upper` or `none`.',
  confidence: 'Confirmation: confidence that the SLO is met at the capacity, 0-1.',
  speedRatio: 'Non-stationary server: its speed at the end divided by its speed at the beginning.',
  slo: 'The SLO of the search.',
  metrics: "The server's own metrics at the capacity.",
  unloaded: 'Latencies of one request at a time.',
  saturationRps: 'Rate of a saturated closed loop.',
  points: 'Every [load point](#load-point), in time order.',
  requests: 'Requests sent.',
  seconds: 'Seconds of load.',
  warmUp: 'Requests of the warm-up, and the number after which the server was steady.',
  adjustments: 'Rules that changed the interval, in their order: [adjustments](#adjustments).',
  variation: 'Confirmation: how its windows disagree; absent when they agree.',
  detail: 'The evidence for an outcome other than `converged`.',
  caveats: 'What a reader of the figures must know.',
}

const outcomes: Sentences<CapacityOutcome> = {
  converged: 'The interval is narrow enough.',
  'slo-unattainable': 'Even one request at a time violates the SLO; the capacity is 0.',
  errors: 'The server fails more requests than allowed at any load.',
  budget: 'Time or requests ran out; the interval states how far the search came.',
  'non-stationary': 'The speed of the server still changed when the time was up.',
  'generator-limit': 'The load generator was the limit; the capacity is a lower bound.',
  'host-interference': 'Other work on the machine disturbed every window; nothing is known.',
  pruned: 'Pruned: certainly worse than the best so far; the capacity is an upper bound.',
  'server-died': 'The server ended under load.',
  imported: 'Read from the results of another tool.',
}

const loadPoint: Sentences<keyof LoadPoint> = {
  load: 'The load: `kind` `closed` or `open`, its rate or connections, arrivals, duration.',
  offeredRps: 'Intended rate; of a closed loop the rate at which it settled.',
  achievedRps: 'Good answers per second.',
  goodputRps: 'Good answers within the SLO per second.',
  requests: 'Answered requests.',
  meanMs: 'Mean latency, ms.',
  p50Ms: 'Median latency, ms.',
  p90Ms: '90th percentile, ms.',
  p95Ms: '95th percentile, ms.',
  p99Ms: '99th percentile, ms.',
  maxMs: 'Maximum latency, ms.',
  errors: 'Failed requests.',
  errorKinds: '[Error class](protocols.md#errors) to number of requests.',
  sloMs: 'SLO percentile over all requests, failed ones counted as infinitely slow, ms.',
  sloCi95Ms: 'Distribution-free 95 % interval of `sloMs`.',
  generatorSaturated: 'true: the load generator could not send at the intended rate.',
  latenessP99Ms: '99th percentile of the delay between intended and actual send, ms.',
  seconds: 'Length of the window.',
  cut: 'true: the window was ended early, because the SLO was already violated.',
  stream: 'Streamed answers: all their latencies and tokens.',
  joint: 'SLO with several limits: the share of good requests, and of those within each limit.',
  latencies: 'Histograms of the latencies, for another SLO.',
  invalid: 'true: other work on the machine kept the server or the load generator waiting.',
}

const fieldTable = (sentences: Readonly<Record<string, string>>): string =>
  table(
    ['field', 'meaning'],
    Object.entries(sentences).map(([name, meaning]) => [code(name), meaning]),
  )

export const eventsPage = (): string =>
  [
    '# Events',
    '`tune --events` and `tune resume --events` print every event as one line of JSON on stdout. The\n[library](library.md) passes the same events to `onEvent`. Every event has `at`, its time in ISO 8601, and `type`.\nIn JSON an infinite figure is the text `"Infinity"`. Fields may be added; a reader ignores those that it does not know.',
    ...Object.entries(events).flatMap(([type, { when, fields }]) => [
      `## ${type}`,
      when,
      fieldTable(fields),
    ]),
    '## Stop reasons',
    fieldTable(stopReasons),
    '## Trial',
    'Fields that begin with a state are present in that state alone.',
    fieldTable(trial),
    '## Measurement',
    fieldTable(measurement),
    '### Outcome',
    fieldTable(outcomes),
    '### Adjustments',
    fieldTable(intervalRules),
    '## Load point',
    fieldTable(loadPoint),
  ].join('\n\n')
