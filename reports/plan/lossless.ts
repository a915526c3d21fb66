/** Finds the cheapest autoscaler settings without SLO violations. */
import type { Demand } from './demand.ts'
import { type FleetOutcome, type SimulationEnvironment, simulateAutoscaledFleet } from './fleet.ts'
import { defaultBehaviour, type HpaSettings } from './hpa.ts'
import type { FleetUnit } from './replica.ts'

export interface ScaledFleet {
  readonly settings: HpaSettings
  readonly outcome: FleetOutcome
}

/**
 * Shares of the configured target to try: a lower target scales up earlier, and leaves room while
 * new replicas start. The steps are assumed.
 */
const targetShares = [1, 0.85, 0.7, 0.55, 0.4]

/**
 * Searches settings under which the simulated demand violates the SLO in no minute: a target up to
 * the configured one, the minimum number of replicas that it then needs, and the configured scaling
 * policies or the defaults of Kubernetes.
 * @param maxReplicas replicas that meet the SLO without an autoscaler
 * @returns undefined if no settings cost less than those replicas
 */
export function findLosslessSettings(
  unit: FleetUnit,
  demand: Demand,
  configured: HpaSettings,
  maxReplicas: number,
  surroundings: SimulationEnvironment,
): ScaledFleet | undefined {
  let best: ScaledFleet | undefined
  const policies =
    configured.behaviour === defaultBehaviour
      ? [defaultBehaviour]
      : [configured.behaviour, defaultBehaviour]
  for (const behaviour of policies)
    for (const share of targetShares) {
      const targetRps = configured.targetRps * share
      const simulate = (minReplicas: number): ScaledFleet => {
        const settings = { ...configured, targetRps, minReplicas, behaviour }
        return { settings, outcome: simulateAutoscaledFleet(unit, demand, settings, surroundings) }
      }
      best = selectCheaper(
        best,
        findLowestMinimum(
          simulate,
          configured.minReplicas,
          maxReplicas,
          best?.outcome.meanReplicas ?? maxReplicas,
        ),
      )
    }
  return best && best.outcome.meanReplicas < maxReplicas - 1e-9 ? capReplicas(best) : undefined
}

/**
 * Bisects the lowest minimum number of replicas without SLO violations; a higher one has fewer.
 * @param bestMeanReplicas mean replicas of the best settings so far: no minimum above it can be
 * cheaper
 */
function findLowestMinimum(
  simulate: (min: number) => ScaledFleet,
  minReplicas: number,
  maxReplicas: number,
  bestMeanReplicas: number,
): ScaledFleet | undefined {
  let [low, high] = [minReplicas, Math.min(maxReplicas, Math.ceil(bestMeanReplicas)) - 1]
  let lowest: ScaledFleet | undefined
  while (low <= high) {
    const middle = Math.floor((low + high) / 2)
    const simulated = simulate(middle)
    if (simulated.outcome.lostMinutes === 0) {
      lowest = simulated
      high = middle - 1
    } else low = middle + 1
  }
  return lowest
}

const selectCheaper = (a: ScaledFleet | undefined, b: ScaledFleet | undefined) =>
  a === undefined || (b !== undefined && b.outcome.meanReplicas < a.outcome.meanReplicas - 1e-9)
    ? b
    : a

/** Limits the replicas to a quarter more than the simulation needed: the demand may be higher. */
const capReplicas = ({ settings, outcome }: ScaledFleet): ScaledFleet => ({
  settings: {
    ...settings,
    maxReplicas: Math.max(outcome.maxReplicas + 1, Math.ceil(1.25 * outcome.maxReplicas)),
  },
  outcome,
})
