/** Scaling on what one replica was measured to carry. Only for figures that hold of what is deployed. */
import { requestsMetric } from './keda.ts'
import type { Manifest } from './manifest.ts'
import type { Serving } from './serving.ts'

/** Name of the per-pod metric that the autoscaler reads: requests per second, from Prometheus through an adapter. */
const rateMetric = 'inference_requests_per_second'

/** Scales on requests per second and pod, at capacity × (1 − headroom). */
export function autoscaler(serving: Serving, scaleTargetRef: Manifest): Manifest {
  return {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: serving.name, labels: { 'app.kubernetes.io/name': serving.name } },
    spec: {
      scaleTargetRef,
      minReplicas: serving.minReplicas,
      maxReplicas: serving.maxReplicas,
      metrics: rateMetrics(serving),
    },
  }
}

export const rateMetrics = (serving: Serving): readonly Manifest[] => [
  {
    type: 'Pods',
    pods: { metric: { name: rateMetric }, target: { type: 'AverageValue', averageValue: rateQuantity(serving.perReplicaRps) } },
  },
]

/** 24.5 req/s → '24500m': a quantity has no decimals beyond milli. Rounded down, to scale rather early. */
const rateQuantity = (rps: number): string => (rps >= 100 || Number.isInteger(rps) ? String(Math.floor(rps)) : `${Math.floor(rps * 1000)}m`)

export const adapterNote = (serving: Serving): string =>
  `needs a metrics adapter that serves ${rateMetric} per pod, e.g. prometheus-adapter with metricsQuery sum(rate(${requestsMetric(serving)}{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)`

/** Instead of a target that nobody measured. */
export const unscaledNote =
  'no autoscaler: what a replica of this carries was not measured, so the number of replicas is fixed; once tune verify has settled it, scale at the rate that held'
