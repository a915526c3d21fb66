/**
 * How many replicas Kubernetes' HorizontalPodAutoscaler (autoscaling/v2) requests at each sync:
 * its tolerance, its stabilisation windows and its policies (kubernetes/kubernetes,
 * pkg/controller/podautoscaler/horizontal.go and replica_calculator.go). KEDA creates such an
 * autoscaler and adds scaling to zero.
 */
interface ScalingPolicy {
  readonly type: 'Percent' | 'Pods'
  readonly value: number
  readonly periodSeconds: number
}

interface ScalingRules {
  readonly stabilizationWindowSeconds: number
  /** Max: the policy with the largest change decides. */
  readonly selectPolicy?: 'Max'
  readonly policies: readonly ScalingPolicy[]
}

/** `behavior` of the manifest. */
export interface ScalingBehaviour {
  readonly scaleUp: ScalingRules
  readonly scaleDown: ScalingRules
}

/** Kubernetes' own defaults. */
export const defaultBehaviour: ScalingBehaviour = {
  scaleUp: {
    stabilizationWindowSeconds: 0,
    policies: [
      { type: 'Percent', value: 100, periodSeconds: 15 },
      { type: 'Pods', value: 4, periodSeconds: 15 },
    ],
  },
  scaleDown: {
    stabilizationWindowSeconds: 300,
    policies: [{ type: 'Percent', value: 100, periodSeconds: 15 }],
  },
}

/**
 * Scaling behaviour by the start-up time. The fleet at most doubles within one start-up, so that
 * new replicas serve before more are requested. It loses one replica, or a tenth, in the same time,
 * and only after ten start-ups (at least five minutes) without need.
 * @returns undefined, for the autoscaler's defaults, where the start-up was not measured
 */
export function buildBehaviour(launchSeconds: number | undefined): ScalingBehaviour | undefined {
  if (launchSeconds === undefined || !(launchSeconds > 0)) return undefined
  const periodSeconds = clampSeconds(15, launchSeconds, 1800)
  return {
    scaleUp: {
      stabilizationWindowSeconds: 0,
      policies: [{ type: 'Percent', value: 100, periodSeconds }],
    },
    scaleDown: {
      stabilizationWindowSeconds: clampSeconds(300, 10 * launchSeconds, 3600),
      selectPolicy: 'Max',
      policies: [
        { type: 'Pods', value: 1, periodSeconds },
        { type: 'Percent', value: 10, periodSeconds },
      ],
    },
  }
}

/** Whole seconds within the bounds of the API. */
const clampSeconds = (min: number, seconds: number, max: number): number =>
  Math.min(max, Math.max(min, Math.ceil(seconds)))

export interface HpaSettings {
  /** Target rate of each replica, requests per second. */
  readonly targetRps: number
  readonly minReplicas: number
  readonly maxReplicas: number
  readonly behaviour: ScalingBehaviour
  /**
   * Which requests the observed rate counts. `answered`: by the replicas, as the specs count them;
   * never above their saturation. `arrived`: by a gateway in front of them.
   */
  readonly countedRequests: 'answered' | 'arrived'
}

/** Seconds between two syncs: the controller's default. */
export const syncSeconds = 15
/** Relative difference from the target within which nothing changes: the controller's default. */
export const tolerance = 0.1
/** KEDA's default interval of polls at zero replicas, seconds. */
const pollingSeconds = 30
/** KEDA's default time without requests before it scales to zero, seconds. */
const cooldownSeconds = 300

interface Change {
  readonly atSeconds: number
  readonly by: number
}

/** One autoscaler over time. */
export class Hpa {
  readonly #settings: HpaSettings
  readonly #recommendations: { atSeconds: number; replicas: number }[] = []
  #changes: Change[] = []
  #lastRequestSeconds = 0

  constructor(settings: HpaSettings) {
    this.#settings = settings
  }

  /** For how long an observation can influence a decision, seconds. */
  get lookBackSeconds(): number {
    const { scaleUp, scaleDown } = this.#settings.behaviour
    const periods = [...scaleUp.policies, ...scaleDown.policies].map((p) => p.periodSeconds)
    return Math.max(
      cooldownSeconds,
      scaleUp.stabilizationWindowSeconds,
      scaleDown.stabilizationWindowSeconds,
      ...periods,
    )
  }

  /**
   * @param observedRps of all replicas together; NaN: not known
   * @param current replicas, including those that start
   * @returns the requested number of replicas
   */
  decideReplicas(atSeconds: number, observedRps: number, current: number): number {
    const { minReplicas, maxReplicas } = this.#settings
    if (Number.isNaN(observedRps)) return current
    if (observedRps > 1e-9) this.#lastRequestSeconds = atSeconds
    if (current === 0) return this.#scaleFromZero(atSeconds, observedRps)
    if (minReplicas === 0 && atSeconds - this.#lastRequestSeconds >= cooldownSeconds)
      return this.#recordChange(atSeconds, current, 0)
    const desired = Math.min(
      maxReplicas,
      Math.max(minReplicas, 1, this.#computeDesired(observedRps, current)),
    )
    const stable = this.#applyStabilisation(atSeconds, desired, current)
    return this.#recordChange(atSeconds, current, this.#applyPolicies(atSeconds, stable, current))
  }

  #scaleFromZero(atSeconds: number, observedRps: number): number {
    const { minReplicas } = this.#settings
    if (minReplicas > 0) return this.#recordChange(atSeconds, 0, minReplicas)
    return observedRps > 1e-9 && atSeconds % pollingSeconds < syncSeconds
      ? this.#recordChange(atSeconds, 0, 1)
      : 0
  }

  #computeDesired(observedRps: number, current: number): number {
    const { targetRps } = this.#settings
    if (Math.abs(observedRps / (targetRps * current) - 1) <= tolerance) return current
    return Math.ceil(observedRps / targetRps - 1e-9)
  }

  #applyStabilisation(atSeconds: number, desired: number, current: number): number {
    const { scaleUp, scaleDown } = this.#settings.behaviour
    const windowSeconds = Math.max(
      scaleUp.stabilizationWindowSeconds,
      scaleDown.stabilizationWindowSeconds,
    )
    this.#recommendations.push({ atSeconds, replicas: desired })
    while (
      this.#recommendations[0]!.atSeconds <= atSeconds - windowSeconds &&
      this.#recommendations.length > 1
    )
      this.#recommendations.shift()
    let [up, down] = [desired, desired]
    for (const { atSeconds: recommendedAt, replicas } of this.#recommendations) {
      if (recommendedAt > atSeconds - scaleUp.stabilizationWindowSeconds)
        up = Math.min(up, replicas)
      if (recommendedAt > atSeconds - scaleDown.stabilizationWindowSeconds)
        down = Math.max(down, replicas)
    }
    return Math.min(down, Math.max(up, current))
  }

  #applyPolicies(atSeconds: number, desired: number, current: number): number {
    const { scaleUp, scaleDown } = this.#settings.behaviour
    const countReplicasBefore = (seconds: number) =>
      current -
      this.#changes.reduce((sum, c) => (c.atSeconds > atSeconds - seconds ? sum + c.by : sum), 0)
    if (desired > current) {
      const limits = scaleUp.policies.map(({ type, value, periodSeconds }) => {
        const replicasBefore = countReplicasBefore(periodSeconds)
        return type === 'Pods'
          ? replicasBefore + value
          : Math.ceil(replicasBefore * (1 + value / 100))
      })
      return Math.max(current, Math.min(desired, Math.max(...limits)))
    }
    const limits = scaleDown.policies.map(({ type, value, periodSeconds }) => {
      const replicasBefore = countReplicasBefore(periodSeconds)
      return type === 'Pods'
        ? replicasBefore - value
        : Math.floor(replicasBefore * (1 - value / 100))
    })
    return Math.min(current, Math.max(desired, Math.min(...limits)))
  }

  #recordChange(atSeconds: number, from: number, to: number): number {
    if (to !== from) {
      this.#changes = this.#changes.filter((c) => c.atSeconds > atSeconds - this.lookBackSeconds)
      this.#changes.push({ atSeconds, by: to - from })
    }
    return to
  }
}
