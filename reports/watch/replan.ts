/**
 * What to deploy in place of what runs, from what was measured before: nothing where nothing is
 * gained, and no guess where too little is known.
 */
import { countReplicas } from '../../search/objective.ts'
import { computeFleetPricePerHour, type ReplicaPrice } from '../../search/replica-price.ts'
import type { Finding } from './watching.ts'

/** A measured configuration under the SLO as drift leaves it. */
export interface Option extends ReplicaPrice {
  readonly trial: number
  readonly label: string
  /**
   * Of one replica, as slow as production is, requests per second; 0 where it no longer keeps the
   * SLO.
   */
  readonly capacityRps: number
}

export interface PlanFor {
  readonly findings: readonly Finding[]
  readonly options: readonly Option[]
  readonly deployed: { readonly trial: number; readonly replicas?: number }
  readonly peakRps: number
  readonly headroom: number
  /** Another configuration must cost so much less, e.g. 0.05. */
  readonly leastGain: number
}

interface Fleet {
  readonly trial: number
  readonly label: string
  readonly replicas: number
  /** Of all of them. */
  readonly perHour: number
}

export type Proposal =
  | { readonly kind: 'nothing'; readonly why: string }
  /**
   * `from` is what would have to run of the deployed configuration; absent where it no longer keeps
   * the SLO.
   */
  | { readonly kind: 'change'; readonly to: Fleet; readonly from?: Fleet }
  | { readonly kind: 'tune again'; readonly why: string; readonly newModel: boolean }

/** Beyond this factor a server is another one: its curve is not scaled. */
const mostSlowness = 1.5

export function replan({
  findings,
  options,
  deployed,
  peakRps,
  headroom,
  leastGain,
}: PlanFor): Proposal {
  const version = findings.find((finding) => finding.kind === 'version')
  if (version)
    return {
      kind: 'tune again',
      why: `version ${version.seen.join(', ')} is deployed, but version ${version.measured} was measured`,
      newModel: true,
    }
  const slowness = findings.find((finding) => finding.kind === 'drift')?.slowness ?? 1
  if (slowness > mostSlowness)
    return {
      kind: 'tune again',
      why: `requests take ${slowness.toFixed(2)} times as long as measured, so the measured load curve no longer applies`,
      newModel: false,
    }
  if (!(peakRps > 0)) return { kind: 'nothing', why: 'no requests were observed' }
  const fleets = options
    .filter(({ capacityRps }) => capacityRps > 0)
    .map((option): Fleet => {
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
  const stays = fleets.find(({ trial }) => trial === deployed.trial)
  if (!stays) return { kind: 'change', to: best }
  if (best.trial !== stays.trial && best.perHour <= stays.perHour * (1 - leastGain))
    return { kind: 'change', to: best, from: stays }
  const { replicas } = deployed
  const idle = findings.some(({ kind }) => kind === 'traffic-under')
  if (replicas !== undefined && (stays.replicas > replicas || (idle && stays.replicas < replicas)))
    return { kind: 'change', to: stays, from: stays }
  const enough =
    replicas === undefined
      ? ''
      : `, and ${replicas} ${replicas === 1 ? 'replica carries' : 'replicas carry'} the traffic`
  return {
    kind: 'nothing',
    why: `no other measured configuration costs ${Math.round(leastGain * 100)} % less${enough}`,
  }
}
