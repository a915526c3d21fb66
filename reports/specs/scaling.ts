/**
 * Scaling on what one replica was measured to carry. Only for figures that hold of what is
 * deployed.
 */
import { behaviourOf, type ScalingBehaviour } from '../plan/hpa.ts'
import type { Manifest } from './manifest.ts'
import type { Container, Serving } from './serving.ts'

/**
 * Name of the per-pod metric that the autoscaler reads: requests per second, from Prometheus
 * through an adapter.
 */
const rateMetric = 'inference_requests_per_second'

/** The Prometheus counter of answered requests. */
const requestsMetric = (container: Container): string =>
  container.requestsMetric ?? 'http_requests_total'

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
      ...behaviour(serving),
    },
  }
}

export const rateMetrics = (serving: Serving): readonly Manifest[] => [
  {
    type: 'Pods',
    pods: {
      metric: { name: rateMetric },
      target: { type: 'AverageValue', averageValue: rateQuantity(serving.perReplicaRps) },
    },
  },
]

/**
 * 24.5 req/s → '24500m': a quantity has no decimals beyond milli. Rounded down, to scale rather
 * early.
 */
const rateQuantity = (rps: number): string =>
  rps >= 100 || Number.isInteger(rps) ? String(Math.floor(rps)) : `${Math.floor(rps * 1000)}m`

/**
 * Those of a plan, else made from the measured start; left to the autoscaler's defaults where there
 * is neither.
 */
export function behaviour({ scaling, evidence }: Serving): {
  readonly behavior?: ScalingBehaviour
} {
  const behavior = scaling ?? behaviourOf(evidence.launchSeconds)
  return behavior === undefined ? {} : { behavior }
}

export const adapterNote = ({ container }: Serving): string =>
  `needs a metrics adapter that serves ${rateMetric} per pod, e.g. prometheus-adapter with metricsQuery sum(rate(${requestsMetric(container)}{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)`

/** Instead of a target that nobody measured. */
export const unscaledNote =
  'no autoscaler: what a replica of this carries was not measured, so the number of replicas is fixed; once tune verify has settled it, scale at the rate that held'

export const defaultPrometheus = 'http://prometheus.monitoring:9090'

/**
 * The namespace that a query names: where none is known the objects say this one too, so that they
 * agree.
 */
export const queriedNamespace = ({ namespace }: Serving): string => namespace ?? 'default'

/**
 * Total rate of one Deployment's pods, requests per second. Their names end in the hash of a
 * ReplicaSet and five characters: bert-large is not bert.
 */
export const rateQuery = (serving: Serving, deployment: string): string =>
  `sum(rate(${requestsMetric(serving.container)}{namespace="${queriedNamespace(serving)}",pod=~"${deployment}-[a-z0-9]{6,10}-[a-z0-9]{5}"}[1m]))`

/** A decimal that KEDA and the autoscaler read, rounded down to scale rather early. */
export const threshold = (serving: Serving): string =>
  String(Math.floor(serving.perReplicaRps * 10) / 10)

/**
 * KEDA ScaledObject: the total request rate that Prometheus sees, divided by what one replica
 * carries. @param deployment the Deployment to scale.
 */
export function keda(
  serving: Serving,
  deployment: string,
  prometheus = defaultPrometheus,
): Manifest {
  const { behavior } = behaviour(serving)
  return {
    apiVersion: 'keda.sh/v1alpha1',
    kind: 'ScaledObject',
    metadata: { name: serving.name },
    spec: {
      scaleTargetRef: { name: deployment },
      minReplicaCount: serving.minReplicas,
      maxReplicaCount: serving.maxReplicas,
      ...(behavior === undefined
        ? {}
        : { advanced: { horizontalPodAutoscalerConfig: { behavior } } }),
      triggers: [
        {
          type: 'prometheus',
          metricType: 'AverageValue',
          metadata: {
            serverAddress: prometheus,
            query: rateQuery(serving, deployment),
            threshold: threshold(serving),
          },
        },
      ],
    },
  }
}

export const kedaNote = (serving: Serving, prometheus = defaultPrometheus): string =>
  `needs KEDA, and a Prometheus at ${prometheus} that scrapes ${requestsMetric(serving.container)} of these pods in namespace ${queriedNamespace(serving)} (--namespace names another)`
