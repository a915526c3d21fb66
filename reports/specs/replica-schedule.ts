/** Replicas of a fleet by the hour of the day, with KEDA's cron triggers. */
import type { Manifest } from './manifest.ts'
import type { Serving } from './serving.ts'

/**
 * Replicas start this long before the hour that needs them: the measured launch in whole minutes,
 * or an assumed time where no launch of what is deployed was measured.
 */
const assumedLeadMinutes = 5
/** Assumed. */
const maxLeadMinutes = 30

const computeLeadMinutes = ({ figures, evidence: { launchSeconds } }: Serving): number =>
  launchSeconds === undefined || !figures.apply
    ? assumedLeadMinutes
    : Math.min(maxLeadMinutes, Math.max(1, Math.ceil(launchSeconds / 60)))

/**
 * Builds a ScaledObject with a trigger for each span of the day that needs more replicas than the
 * minimum; empty if all hours need the same number.
 */
export function buildCronScaler(serving: Serving): Manifest[] {
  const { replicaPlan } = serving
  const counts = replicaPlan?.byHour ?? []
  const minCount = Math.min(...counts)
  if (replicaPlan === undefined || counts.every((count) => count === minCount)) return []
  const stepMinutes = (hoursOfDay * 60) / counts.length
  return [
    {
      apiVersion: 'keda.sh/v1alpha1',
      kind: 'ScaledObject',
      metadata: { name: serving.name },
      spec: {
        scaleTargetRef: { name: serving.name },
        minReplicaCount: minCount,
        maxReplicaCount: replicaPlan.replicas,
        triggers: findSpansAbove(counts, minCount).map(({ from, to, replicas }) => ({
          type: 'cron',
          metadata: {
            timezone: replicaPlan.timezone,
            start: formatCron(from * stepMinutes - computeLeadMinutes(serving)),
            end: formatCron(to * stepMinutes),
            desiredReplicas: String(replicas),
          },
        })),
      },
    },
  ]
}

/**
 * A full fleet has no room for another replica, so an update stops one before it starts the next.
 */
export const fullFleetStrategy: Manifest = {
  type: 'RollingUpdate',
  rollingUpdate: { maxSurge: 0, maxUnavailable: 1 },
}

export const fullFleetNote =
  'the fleet has room for exactly these replicas: an update stops a replica before it starts the next, and no other pod may request these GPU slices'

/**
 * Notes on a deployment of a fleet.
 * @param isScheduled KEDA sets its replicas by the hour
 */
export function describeSchedule(serving: Serving, isScheduled: boolean): string[] {
  const { replicaPlan } = serving
  if (replicaPlan === undefined) return []
  const claimNotes = replicaPlan.claim
    ? [
        `it shares its GPU through the claim ${replicaPlan.claim} in shared/: MPS limits each process by CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`,
      ]
    : []
  return [
    fullFleetNote,
    ...claimNotes,
    ...(isScheduled
      ? [
          `needs KEDA, which sets the replicas by the hour (${replicaPlan.timezone}), each change ${computeLeadMinutes(serving)} min before its hour`,
        ]
      : []),
  ]
}

const hoursOfDay = 24
/** Minute of the day → cron expression: 485 → '5 8 * * *'; -10 is 23:50. */
const formatCron = (minute: number): string => {
  const minuteOfDay = (minute + hoursOfDay * 60) % (hoursOfDay * 60)
  return `${minuteOfDay % 60} ${Math.floor(minuteOfDay / 60)} * * *`
}

/**
 * Spans of the day with the same count, in indexes of `counts`; spans with the least count are left
 * out. A span may go over midnight: then `to` is larger than the number of counts.
 */
function findSpansAbove(
  counts: readonly number[],
  least: number,
): { readonly from: number; readonly to: number; readonly replicas: number }[] {
  // Starting where the count is least, no span goes over the end of the loop.
  const firstLeast = counts.indexOf(least)
  const spans: { from: number; to: number; replicas: number }[] = []
  for (let step = firstLeast; step < firstLeast + counts.length; step++) {
    const replicas = counts[step % counts.length]!
    const last = spans.at(-1)
    if (last?.to === step && last.replicas === replicas) last.to = step + 1
    else if (replicas > least) spans.push({ from: step, to: step + 1, replicas })
  }
  return spans
}
