/** KEDA ScaledObject: scales on the total request rate that Prometheus sees, divided by what one replica carries. */
import type { Manifest } from './manifest.ts'
import type { Serving } from './serving.ts'

const defaultPrometheus = 'http://prometheus.monitoring:9090'

/** The Prometheus counter of answered requests. */
export const requestsMetric = (serving: Serving): string => serving.container.requestsMetric ?? 'http_requests_total'

/** Total rate of one service's pods, requests per second. The pod label is set by Prometheus from the pod's own name. */
export const rateQuery = (serving: Serving, podPrefix: string): string =>
  `sum(rate(${requestsMetric(serving)}{pod=~"${podPrefix}-.*"}[1m]))`

/** A decimal that KEDA and the autoscaler read, rounded down to scale rather early. */
export const threshold = (serving: Serving): string => String(Math.floor(serving.perReplicaRps * 10) / 10)

/** @param deployment the Deployment to scale. */
export function keda(serving: Serving, deployment: string, prometheus = defaultPrometheus): Manifest {
  return {
    apiVersion: 'keda.sh/v1alpha1',
    kind: 'ScaledObject',
    metadata: { name: serving.name },
    spec: {
      scaleTargetRef: { name: deployment },
      minReplicaCount: serving.minReplicas,
      maxReplicaCount: serving.maxReplicas,
      triggers: [
        {
          type: 'prometheus',
          metricType: 'AverageValue',
          metadata: { serverAddress: prometheus, query: rateQuery(serving, deployment), threshold: threshold(serving) },
        },
      ],
    },
  }
}

export { defaultPrometheus }
