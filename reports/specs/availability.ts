/**
 * Fields that keep a service available while single replicas come and go: spread, a budget for
 * evictions, and an end after the requests that are under way.
 */
import type { Manifest } from './manifest.ts'
import { preStopSeconds } from './requirements.ts'
import type { Container, Serving } from './serving.ts'

export type Labels = Readonly<Record<string, string>>

/** Selects the replicas of a serving, where the platform has no labels of its own for them. */
export const buildLabels = ({ name }: Pick<Serving, 'name'>): Labels => ({
  'app.kubernetes.io/name': name,
})

/** Delays the end of a container: requests arrive until every proxy knows that the pod ends. */
export const lifecycle: Manifest = {
  preStop: { exec: { command: ['sleep', String(preStopSeconds)] } },
}

/**
 * Least number of replicas at any time.
 * @param isScaled whether an autoscaler sets the number
 */
export const countMinReplicas = ({ replicas, minReplicas }: Serving, isScaled: boolean): number =>
  isScaled ? minReplicas : replicas

const zones = 'topology.kubernetes.io/zone'
const nodes = 'kubernetes.io/hostname'

/**
 * Fields of a pod's spec: its time to end, and its spread.
 * @param isReplicated whether more than one pod runs at any time
 * @param topologyKeys node labels over whose values the pods are spread
 */
export const buildLifetime = (
  { requirements }: Pick<Serving, 'requirements'>,
  labels: Labels,
  isReplicated: boolean,
  topologyKeys: readonly string[] = [zones, nodes],
): Manifest => ({
  terminationGracePeriodSeconds: requirements.graceSeconds,
  topologySpreadConstraints: isReplicated
    ? topologyKeys.map((topologyKey) => ({
        maxSkew: 1,
        topologyKey,
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: { matchLabels: labels },
      }))
    : undefined,
})

/** Spreads pods over zones only, because their affinity already keeps them on different nodes. */
export const buildZonalLifetime = (
  serving: Pick<Serving, 'requirements'>,
  labels: Labels,
  isReplicated: boolean,
): Manifest => buildLifetime(serving, labels, isReplicated, [zones])

/**
 * Lets one replica at a time be evicted; empty if there is only one replica.
 * @param labels of the pods
 */
export const buildDisruptionBudget = (
  { name }: Pick<Serving, 'name'>,
  isReplicated: boolean,
  labels: Labels,
): Manifest[] =>
  isReplicated
    ? [
        {
          apiVersion: 'policy/v1',
          kind: 'PodDisruptionBudget',
          metadata: { name, labels: buildLabels({ name }) },
          spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
        },
      ]
    : []

/**
 * Builds the annotations by which the usual scrape configuration of Prometheus finds the metrics.
 */
export const buildScrapeAnnotations = ({
  port,
  metrics = { port, path: '/metrics' },
}: Pick<Container, 'port' | 'metrics'>): Labels => ({
  'prometheus.io/scrape': 'true',
  'prometheus.io/port': String(metrics.port),
  'prometheus.io/path': metrics.path,
})
