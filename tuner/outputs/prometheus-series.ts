/**
 * Converts events into samples of Prometheus series. docs/how-to/send-results.md documents their
 * names, and deploy/grafana/tune.json uses them.
 */
import { sloText } from '../../profiler/model/slo.ts'
import type { TuneEvent } from '../loop/events.ts'

export interface Sample {
  readonly name: SeriesName
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
  /** Milliseconds since 1970. */
  readonly atMs: number
}

/** Description of every series. All have the label `experiment`. */
export const seriesHelp = {
  tune_slo_limit_seconds:
    'latency limit of the SLO; `slo` is its text, `name` the name of the experiment',
  tune_load_offered_requests_per_second:
    'of a load step: the rate at which requests were sent (`trial`, `phase`)',
  tune_load_achieved_requests_per_second:
    'of a load step: good answers per second (`trial`, `phase`)',
  tune_load_latency_seconds: 'of a load step: latency at the `quantile` (`trial`, `phase`)',
  tune_load_slo_latency_seconds:
    "of a load step: latency at the SLO's percentile, failed requests counted as infinitely slow (`trial`, `phase`)",
  tune_load_error_ratio: 'of a load step: share of requests that failed (`trial`, `phase`)',
  tune_trials: 'trials of this run that ended, by `state`',
  tune_trial_estimate_requests_per_second:
    'of a complete trial: estimate of the highest rate that meets the SLO (`trial`, `configuration`)',
  tune_trial_price_dollars_per_hour:
    'of a trial that ended: price of one replica (`trial`, `configuration`, `state`)',
  tune_trial_duration_seconds:
    'of a trial that ended: launch, load and stop (`trial`, `configuration`, `state`)',
  tune_spent_dollars: 'price of everything launched so far',
  tune_better_exists_probability:
    'probability that an untried configuration is better by more than the tolerance, as predicted by the search',
  tune_best_capacity_requests_per_second:
    'safe capacity of the recommended configuration (`configuration`, `conclusion`)',
  tune_best_price_dollars_per_hour:
    'price of one replica of the recommended configuration (`configuration`, `conclusion`)',
  tune_best_replicas:
    'replicas of the recommended configuration, if the experiment has a demand (`configuration`, `conclusion`)',
} as const
type SeriesName = keyof typeof seriesHelp

type Labels = Readonly<Record<string, string>>

/** Turns a run's events into samples, in their order. */
export class RunSeries {
  #experiment = ''
  readonly #ended = new Map<string, number>()

  createSamples(event: TuneEvent): Sample[] {
    const atMs = Date.parse(event.at)
    const sample = (name: SeriesName, value: number, labels: Labels = {}): Sample => ({
      name,
      labels: { experiment: this.#experiment, ...labels },
      value,
      atMs,
    })
    switch (event.type) {
      case 'experiment-started':
        this.#experiment = event.experimentId
        return [
          sample('tune_slo_limit_seconds', event.slo.limitMs / 1000, {
            slo: sloText(event.slo),
            name: event.name,
          }),
        ]
      case 'load-step': {
        const { point, phase } = event
        const labels = { trial: String(event.number), phase }
        const latency = (quantile: string, ms: number) =>
          sample('tune_load_latency_seconds', ms / 1000, { ...labels, quantile })
        return [
          sample('tune_load_offered_requests_per_second', point.offeredRps, labels),
          sample('tune_load_achieved_requests_per_second', point.achievedRps, labels),
          latency('0.5', point.p50Ms),
          latency('0.9', point.p90Ms),
          latency('0.95', point.p95Ms),
          latency('0.99', point.p99Ms),
          sample('tune_load_slo_latency_seconds', point.sloMs / 1000, labels),
          sample(
            'tune_load_error_ratio',
            point.requests > 0 ? point.errors / point.requests : 0,
            labels,
          ),
        ]
      }
      case 'trial-finished': {
        const { trial, label, pricePerHour, spent } = event
        const count = (this.#ended.get(trial.state) ?? 0) + 1
        this.#ended.set(trial.state, count)
        const labels = { trial: String(trial.number), configuration: label }
        return [
          sample('tune_trials', count, { state: trial.state }),
          sample('tune_trial_price_dollars_per_hour', pricePerHour, {
            ...labels,
            state: trial.state,
          }),
          sample('tune_trial_duration_seconds', trial.seconds, { ...labels, state: trial.state }),
          sample('tune_spent_dollars', spent),
          ...(trial.state === 'complete'
            ? [
                sample(
                  'tune_trial_estimate_requests_per_second',
                  trial.measurement.capacityRps,
                  labels,
                ),
              ]
            : []),
        ]
      }
      case 'stop-assessed':
        return [sample('tune_better_exists_probability', event.assessment.probabilityBetterExists)]
      case 'recommended': {
        const { best, conclusion } = event.recommendation
        if (best === undefined) return []
        const labels = { configuration: best.label, conclusion }
        return [
          sample('tune_best_capacity_requests_per_second', best.capacityRps, labels),
          sample('tune_best_price_dollars_per_hour', best.pricePerHour, labels),
          ...(best.replicas === undefined
            ? []
            : [sample('tune_best_replicas', best.replicas, labels)]),
        ]
      }
      default:
        return []
    }
  }
}
