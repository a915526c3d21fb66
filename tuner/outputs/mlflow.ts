/**
 * MLflow's REST API, version 2.0 (https://mlflow.org/docs/latest/rest-api.html): the experiment as
 * an experiment of the same name, the run as a run in it, each trial and confirmation as a run
 * below that, with its configuration as parameters and its load steps as metrics.
 */
import { parseUntrustedJson } from '../../profiler/bounded-reader.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import { sloText } from '../../profiler/model/slo.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { OutputTarget } from '../config/values/output-target.ts'
import type { TuneEvent } from '../loop/events.ts'
import { Delivery } from './delivery.ts'
import type { Output } from './output.ts'

/** @param warn called for lost messages */
export function createMlflowOutput(
  target: OutputTarget,
  warn: (message: string) => void,
  now: () => number,
): Output {
  const delivery = new Delivery(target, warn, now)
  const runs = new MlflowRuns(delivery, now)
  let last: Promise<void> = Promise.resolve()
  return {
    handle(event: TuneEvent) {
      last = last.then(() => runs.take(event))
    },
    async close() {
      await last
      await runs.end()
      await delivery.close()
    },
  }
}

type Status = 'FINISHED' | 'FAILED' | 'KILLED'
type Texts = Readonly<Record<string, string | number | boolean | undefined>>
type Figures = Readonly<Record<string, number | undefined>>

interface Run {
  readonly id: string
  /** Load steps so far. */
  steps: number
}

/**
 * Maps events to MLflow runs. If an answer with an id is lost, the messages that need the id are
 * skipped.
 */
class MlflowRuns {
  readonly #delivery: Delivery
  #experimentId: string | undefined
  #root: Run | undefined
  /** Final status of the run; FAILED until it stops. */
  #status: Status = 'FAILED'
  readonly #open = new Map<number, Run>()

  readonly #now: () => number

  constructor(delivery: Delivery, now: () => number) {
    this.#delivery = delivery
    this.#now = now
  }

  async take(event: TuneEvent): Promise<void> {
    const atMs = Date.parse(event.at)
    switch (event.type) {
      case 'experiment-started': {
        this.#experimentId = await this.#experiment(event.name)
        const { provenance, seed } = event
        this.#root = await this.#create(event.experimentId, atMs, {
          'tune.provenance': provenance,
          'tune.resumed_trials': event.resumedTrials,
        })
        if (this.#root)
          await this.#log(
            this.#root,
            atMs,
            {},
            { slo: sloText(event.slo), seed, max_trials: event.maxTrials },
          )
        return
      }
      case 'trial-started':
        return this.#begin(
          event.number,
          `trial ${event.number}`,
          atMs,
          event.suggestion.configuration,
          {
            'tune.why': event.suggestion.why,
            'tune.attempt': String(event.attempt),
          },
        )
      case 'confirming':
        return this.#begin(
          event.number,
          `confirmation ${event.number}`,
          atMs,
          event.configuration,
          { 'tune.purpose': 'confirmation' },
        )
      case 'load-step':
        return this.#step(event.number, event.point, event.phase, atMs)
      case 'trial-finished':
        return this.#trialEnds(event.trial, event.pricePerHour, atMs)
      case 'confirmed':
        return this.#ends(
          event.number,
          atMs,
          'FINISHED',
          { confirmed_rps: event.rateRps, slo_latency_ms: event.sloMs },
          { 'tune.met': event.met },
        )
      case 'stopped':
        return this.#runStops(event.reason, event.detail, atMs)
      case 'recommended': {
        const { best, verdict, conclusion } = event.recommendation
        if (this.#root === undefined) return
        const figures = best && {
          best_capacity_rps: best.capacityRps,
          best_price_per_hour: best.pricePerHour,
          best_replicas: best.replicas,
        }
        const params = Object.fromEntries(
          Object.entries(best?.configuration ?? {}).map(([name, value]) => [`best.${name}`, value]),
        )
        return this.#log(this.#root, atMs, figures ?? {}, params, {
          'tune.verdict': verdict,
          'tune.conclusion': conclusion,
        })
      }
    }
  }

  async #experiment(name: string): Promise<string | undefined> {
    const query = `?experiment_name=${encodeURIComponent(name)}`
    const experiment = await this.#ask(`experiments/get-by-name${query}`, undefined)
    if (experiment === undefined) return undefined
    return (
      findText(experiment, 'experiment', 'experiment_id') ??
      findText(await this.#ask('experiments/create', { name }), 'experiment_id')
    )
  }

  async #create(name: string, atMs: number, tags: Texts): Promise<Run | undefined> {
    if (this.#experimentId === undefined) return undefined
    const answer = await this.#ask('runs/create', {
      experiment_id: this.#experimentId,
      run_name: name,
      start_time: atMs,
      tags: toPairs(tags),
    })
    const id = findText(answer, 'run', 'info', 'run_id')
    return id === undefined ? undefined : { id, steps: 0 }
  }

  async #begin(
    number: number,
    name: string,
    atMs: number,
    configuration: Configuration,
    tags: Texts,
  ): Promise<void> {
    if (this.#root === undefined) return
    const run = await this.#create(name, atMs, { 'mlflow.parentRunId': this.#root.id, ...tags })
    if (run === undefined) return
    this.#open.set(number, run)
    await this.#log(run, atMs, {}, configuration)
  }

  async #step(number: number, point: LoadPoint, phase: string, atMs: number): Promise<void> {
    const run = this.#open.get(number)
    if (run === undefined) return
    const figures = {
      offered_rps: point.offeredRps,
      achieved_rps: point.achievedRps,
      p50_ms: point.p50Ms,
      p95_ms: point.p95Ms,
      p99_ms: point.p99Ms,
      slo_ms: point.sloMs,
      error_ratio: point.requests > 0 ? point.errors / point.requests : 0,
    }
    const prefixedMetrics = Object.fromEntries(
      Object.entries(figures).map(([name, figure]) => [`${phase}/${name}`, figure]),
    )
    await this.#log(run, atMs, prefixedMetrics, {}, {}, run.steps++)
  }

  #trialEnds(trial: FinishedTrial, pricePerHour: number, atMs: number): Promise<void> {
    const figures = { price_per_hour: pricePerHour, seconds: trial.seconds }
    const state = { 'tune.state': trial.state }
    switch (trial.state) {
      case 'complete':
        return this.#ends(
          trial.number,
          atMs,
          'FINISHED',
          { ...figures, estimate_rps: trial.measurement.capacityRps },
          state,
        )
      case 'infeasible':
        return this.#ends(trial.number, atMs, 'FINISHED', figures, {
          ...state,
          'tune.reason': `${trial.reason}: ${trial.detail}`,
        })
      case 'failed':
        return this.#ends(trial.number, atMs, 'FAILED', figures, {
          ...state,
          'tune.error': trial.error,
        })
    }
  }

  async #ends(
    number: number,
    atMs: number,
    status: Status,
    figures: Figures,
    tags: Texts,
  ): Promise<void> {
    const run = this.#open.get(number)
    if (run === undefined) return
    this.#open.delete(number)
    await this.#log(run, atMs, figures, {}, tags)
    await this.#close(run, atMs, status)
  }

  async #runStops(reason: string, detail: string, atMs: number): Promise<void> {
    if (this.#root === undefined) return
    this.#status = reason === 'failed' ? 'FAILED' : reason === 'interrupted' ? 'KILLED' : 'FINISHED'
    await this.#log(this.#root, atMs, {}, {}, { 'tune.stopped': `${reason}: ${detail}` })
  }

  /** Closes all runs after the last event. */
  async end(): Promise<void> {
    const atMs = Math.round(this.#now())
    for (const run of this.#open.values()) await this.#close(run, atMs, 'KILLED')
    if (this.#root) await this.#close(this.#root, atMs, this.#status)
  }

  async #close({ id }: Run, atMs: number, status: Status): Promise<void> {
    await this.#ask('runs/update', { run_id: id, status, end_time: atMs })
  }

  async #log(
    run: Run,
    atMs: number,
    figures: Figures,
    params: Texts = {},
    tags: Texts = {},
    step = 0,
  ): Promise<void> {
    const metrics = Object.entries(figures).flatMap(([key, value]) =>
      value === undefined || !Number.isFinite(value)
        ? []
        : [{ key: sanitiseKey(key), value, timestamp: atMs, step }],
    )
    await this.#ask('runs/log-batch', {
      run_id: run.id,
      metrics,
      params: toPairs(params),
      tags: toPairs(tags),
    })
  }

  /** Undefined if the message was lost. */
  async #ask(path: string, body: object | undefined): Promise<unknown> {
    const answer = await this.#delivery.send({
      path: `/api/2.0/mlflow/${path}`,
      contentType: 'application/json',
      ...(body === undefined ? { notFoundText: '{}' } : { body: JSON.stringify(body) }),
    })
    if (answer === undefined) return undefined
    try {
      return parseUntrustedJson(answer)
    } catch {
      this.#delivery.losses.add(
        `${path.split('?')[0]} was not answered with JSON: check that the URL is that of MLflow`,
      )
      return undefined
    }
  }
}

/** Maximum length that every MLflow store accepts. */
const maxValueLength = 500

const toPairs = (texts: Texts) =>
  Object.entries(texts).flatMap(([key, value]) =>
    value === undefined
      ? []
      : [{ key: sanitiseKey(key), value: String(value).slice(0, maxValueLength) }],
  )

/** MLflow rejects other characters. */
const sanitiseKey = (key: string): string => key.replace(/[^\w\-. /]/g, '_').slice(0, 250)

function findText(value: unknown, ...path: readonly string[]): string | undefined {
  let inner = value
  for (const key of path)
    inner =
      typeof inner === 'object' && inner !== null
        ? (inner as Record<string, unknown>)[key]
        : undefined
  return typeof inner === 'string' ? inner : undefined
}
