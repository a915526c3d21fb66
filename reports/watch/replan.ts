/**
 * Proposes what to deploy instead of the current fleet, by the measured configurations: a change,
 * no change, or new measurements where the old ones no longer apply.
 */
import { countReplicas } from '../../search/objective.ts'
import { computeFleetPricePerHour, type ReplicaPrice } from '../../search/replica-price.ts'
import type { Finding } from './watch.ts'

/** A measured configuration under the SLO, after drift. */
export interface ReplanOption extends ReplicaPrice {
  readonly trial: number
  readonly label: string
  /** Capacity of one replica with production's slowness, req/s; 0: it violates the SLO. */
  readonly capacityRps: number
}

export interface ReplanInput {
  readonly findings: readonly Finding[]
  readonly options: readonly ReplanOption[]
  readonly deployed: { readonly trial: number; readonly replicas?: number }
  readonly peakRps: number
  readonly headroom: number
  /** Share by which another configuration must be cheaper, e.g. 0.05. */
  readonly minGain: number
}

interface ReplicaFleet {
  readonly trial: number
  readonly label: string
  readonly replicas: number
  /** Price of all replicas. */
  readonly perHour: number
}

export type Proposal =
  | { readonly kind: 'nothing'; readonly why: string }
  /** `from`: replicas that the deployed configuration needs; absent if it violates the SLO. */
  | { readonly kind: 'change'; readonly to: ReplicaFleet; readonly from?: ReplicaFleet }
  | { readonly kind: 'tune again'; readonly why: string; readonly newModel: boolean }

/** Above this slowness the measured curve is not scaled: it may have another shape. */
const maxSlowness = 1.5

export function replan({
  findings,
  options,
  deployed,
  peakRps,
  headroom,
  minGain,
}: ReplanInput): Proposal {
  const version = findings.find((finding) => finding.kind === 'version')
  if (version)
    return {
      kind: 'tune again',
      why: `version ${version.seen.join(', ')} is deployed, but version ${version.measured} was measured`,
      newModel: true,
    }
  const slowness = findings.find((finding) => finding.kind === 'drift')?.slowness ?? 1
  if (slowness > maxSlowness)
    return {
      kind: 'tune again',
      why: `requests take ${slowness.toFixed(2)} times as long as measured, so the measured load curve no longer applies`,
      newModel: false,
    }
  if (!(peakRps > 0)) return { kind: 'nothing', why: 'no requests were observed' }
  const fleets = options
    .filter(({ capacityRps }) => capacityRps > 0)
    .map((option): ReplicaFleet => {
      const replicas = countReplicas({ demandRps: peakRps, headroom }, option.capacityRps)
      return {
        trial: option.trial,
        label: option.label,
        replicas,
        perHour: computeFleetPricePerHour(option, replicas),
      }
    })
    .sort((a, b) => a.perHour - b.perHour)
  const [best] = fleets
  if (!best)
    return {
      kind: 'tune again',
      why: 'no measured configuration meets the SLO any longer',
      newModel: false,
    }
  const current = fleets.find(({ trial }) => trial === deployed.trial)
  if (!current) return { kind: 'change', to: best }
  if (best.trial !== current.trial && best.perHour <= current.perHour * (1 - minGain))
    return { kind: 'change', to: best, from: current }
  const { replicas } = deployed
  const hasIdleReplicas = findings.some(({ kind }) => kind === 'traffic-under')
  if (
    replicas !== undefined &&
    (current.replicas > replicas || (hasIdleReplicas && current.replicas < replicas))
  )
    return { kind: 'change', to: current, from: current }
  const capacityNote =
    replicas === undefined
      ? ''
      : `, and ${replicas} ${replicas === 1 ? 'replica carries' : 'replicas carry'} the traffic`
  return {
    kind: 'nothing',
    why: `no other measured configuration costs ${Math.round(minGain * 100)} % less${capacityNote}`,
  }
}
