/**
 * Nodes under a cluster autoscaler with its defaults: it adds a node when pods have no room, and
 * removes one that was not needed for ten minutes.
 */
import type { FleetUnit } from './replica.ts'

/** The cluster autoscaler's default for --scale-down-unneeded-time. */
const unneededSeconds = 600

export class NodePool {
  readonly #unit: FleetUnit
  /**
   * Highest number of nodes needed since each time, falling; the first is the number of nodes now.
   */
  readonly #neededNodes: { at: number; nodes: number }[] = []

  constructor(unit: FleetUnit) {
    this.#unit = unit
  }

  /** How long a need for nodes affects the pool, seconds. */
  get lookBackSeconds(): number {
    return this.#unit.nodeSeconds > 0 ? unneededSeconds : 0
  }

  /**
   * Orders missing pods.
   * @returns after how many seconds they serve: on free places, on new nodes
   */
  orderPods(
    seconds: number,
    pods: number,
    desired: number,
  ): { inSeconds: number; count: number }[] {
    const { startupSeconds, nodeSeconds, replicasPerNode } = this.#unit
    const ordered = Math.max(0, desired - pods)
    const freePlaces =
      nodeSeconds > 0 ? Math.max(0, this.#countNodes(seconds) * replicasPerNode - pods) : ordered
    return [
      { inSeconds: startupSeconds, count: Math.min(ordered, freePlaces) },
      { inSeconds: nodeSeconds + startupSeconds, count: Math.max(0, ordered - freePlaces) },
    ].filter(({ count }) => count > 0)
  }

  /** Records how many pods are needed from a time on. */
  requirePods(seconds: number, pods: number): void {
    const nodes = Math.ceil(pods / this.#unit.replicasPerNode - 1e-9)
    let since = seconds
    while (this.#neededNodes.length > 0 && this.#neededNodes.at(-1)!.nodes <= nodes)
      since = this.#neededNodes.pop()!.at
    this.#neededNodes.push({ at: since, nodes })
    this.#countNodes(seconds)
  }

  /** Replicas paid for, free room on nodes included. */
  countPaidReplicas(pods: number): number {
    return this.#unit.nodeSeconds > 0
      ? (this.#neededNodes[0]?.nodes ?? 0) * this.#unit.replicasPerNode
      : pods
  }

  #countNodes(seconds: number): number {
    while (this.#neededNodes.length > 1 && this.#neededNodes[1]!.at <= seconds - unneededSeconds)
      this.#neededNodes.shift()
    return this.#neededNodes[0]?.nodes ?? 0
  }
}
