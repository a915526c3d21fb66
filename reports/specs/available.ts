/**
 * What keeps a service answering while single replicas come and go: spread, a budget for evictions,
 * and an end after what is under way.
 */
import { preStopSeconds } from './held.ts'
import type { Manifest } from './manifest.ts'
import type { Container, Serving } from './serving.ts'

type Labels = Readonly<Record<string, string>>

/**
 * By which the replicas of a serving are known, where the platform has no labels of its own for
 * them.
 */
export const labelsOf = ({ name }: Pick<Serving, 'name'>): Labels => ({
  'app.kubernetes.io/name': name,
})

/** Requests still come until every proxy has heard that it ends. */
export const lifecycle: Manifest = {
  preStop: { exec: { command: ['sleep', String(preStopSeconds)] } },
}

/** How many there are at any time. @param scaled an autoscaler sets their number */
export const leastReplicas = ({ replicas, minReplicas }: Serving, scaled: boolean): number =>
  scaled ? minReplicas : replicas

const zones = 'topology.kubernetes.io/zone'
const nodes = 'kubernetes.io/hostname'

/** Over zones, and where nothing else keeps them apart over nodes. */
const apart = (labels: Labels, keys: readonly string[]): readonly Manifest[] =>
  keys.map((topologyKey) => ({
    maxSkew: 1,
    topologyKey,
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: labels },
  }))

/**
 * Fields of a pod's spec. @param several there is more than one at any time @param keys what they
 * are spread over
 */
export const lasting = (
  serving: Serving,
  labels: Labels,
  several: boolean,
  keys: readonly string[] = [zones, nodes],
): Manifest => ({
  terminationGracePeriodSeconds: serving.held.graceSeconds,
  ...(several ? { topologySpreadConstraints: apart(labels, keys) } : {}),
})

/** Beside an affinity of its own: over zones alone. */
export const lastingOverZones = (serving: Serving, labels: Labels, several: boolean): Manifest =>
  lasting(serving, labels, several, [zones])

/**
 * One replica at a time may be evicted; nothing where there is only one. @param labels by which the
 * pods are known
 */
export const disruptionBudget = (
  { name }: Serving,
  several: boolean,
  labels: Labels,
): Manifest[] =>
  several
    ? [
        {
          apiVersion: 'policy/v1',
          kind: 'PodDisruptionBudget',
          metadata: { name, labels: { 'app.kubernetes.io/name': name } },
          spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
        },
      ]
    : []

/**
 * Where Prometheus finds the counter, in the annotations that its usual scrape configuration reads.
 */
export const scrapeAnnotations = ({
  port,
  metrics = { port, path: '/metrics' },
}: Pick<Container, 'port' | 'metrics'>): Labels => ({
  'prometheus.io/scrape': 'true',
  'prometheus.io/port': String(metrics.port),
  'prometheus.io/path': metrics.path,
})
