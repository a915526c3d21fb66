/**
 * The deployment of a replica from a table: the image that the user names, with the other columns
 * of the row as its variables.
 */

import { createMpsVariables } from '../../trials/launchers/mps-variables.ts'
import { formatEnvironmentName } from '../../trials/launchers/placeholders.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { parseResources } from '../../trials/resources.ts'
import { percent, rate } from '../format.ts'
import { toDnsLabel } from '../specs/create-serving.ts'
import { computeRequirements } from '../specs/requirements.ts'
import { replaceSecrets } from '../specs/secret-variables.ts'
import type { ReplicaPlan, Serving } from '../specs/serving.ts'
import { formatPlace, type Segment, wholeGpu } from './packing.ts'

interface TableImage {
  readonly image: string
  /** Port on which it listens. */
  readonly port: number
  /** Path of its readiness probe. */
  readonly health: string
}

interface TableReplica {
  /** Name of the deployment. */
  readonly name: string
  readonly model: string
  /** The table, as it is shown. */
  readonly table: string
  readonly segment: Segment
  readonly headroom: number
  readonly sloMs: number
  readonly replicaPlan: ReplicaPlan
}

/**
 * Describes the serving of a replica from a table. It claims no measurement by tune, because the
 * table does not record how its server ran.
 */
export function describeTableServing(
  { name, model, table, segment, headroom, sloMs, replicaPlan }: TableReplica,
  { image, port, health }: TableImage,
): Serving {
  const { row, rateRps } = segment
  const isMigSlice = segment.slice !== wholeGpu && segment.share === undefined
  const configuration = {
    gpu: segment.gpu,
    gpus: segment.gpus,
    ...(isMigSlice && { migProfile: segment.slice }),
  }
  const resources = parseResources(configuration)
  // Neither the cores nor the memory of the table's server are known.
  const measured: MeasuredWith = {
    how: 'imported',
    server: 'url',
    model,
    protocol: 'oip-v2',
    healthPath: health,
    modelKind: 'unknown',
    weights: 'own',
  }
  const slo = { percentile: 0.99, limitMs: sloMs, maxErrorRate: 0 }
  const deployed = { server: 'command', weights: 'own' } as const
  const tableLine = `${table}, line ${row?.line}`
  const variables = Object.entries(row?.values ?? {}).map(
    ([column, value]) => [formatEnvironmentName(column), value] as const,
  )
  const mpsVariables = replicaPlan.mps
    ? createMpsVariables(segment.share!, replicaPlan.mps.memoryMiB)
    : {}
  return {
    trial: row?.line ?? 0,
    name: toDnsLabel(name),
    model,
    deployed,
    figures: {
      provenance: 'imported',
      apply: false,
      mismatches: [
        `${tableLine} gives the rate of a replica, not how its server was started; this deploys ${image}`,
      ],
      remarks: [],
    },
    isScalable: false,
    container: replaceSecrets({
      image,
      isImageNamed: true,
      env: { ...Object.fromEntries(variables), ...mpsVariables },
      port,
      readyPath: health,
    }),
    configuration,
    resources,
    requirements: computeRequirements({ measured, slo }, deployed, false, resources, {}),
    gpuScheme: replicaPlan.claim ? 'dra' : isMigSlice ? 'mig-mixed' : undefined,
    replicas: replicaPlan.replicas,
    replicaPlan,
    isSized: true,
    minReplicas: replicaPlan.replicas,
    maxReplicas: replicaPlan.replicas,
    requestedBounds: {},
    headroom,
    perReplicaRps: rateRps * (1 - headroom),
    evidence: {
      experimentId: tableLine,
      table: tableLine,
      seed: 0,
      slo,
      verdict: `${rate(rateRps)} per replica of ${model}${segment.label ? ` (${segment.label})` : ''} on ${segment.slice === wholeGpu ? `a whole ${segment.gpu}` : formatPlace(segment)}`,
      status: 'imported',
      measured,
    },
    sources: [
      { value: `capacity ${rate(rateRps)}`, from: tableLine },
      ...variables.map(([variable, value]) => ({
        value: `${variable}=${value}`,
        from: `${tableLine}: passed as an environment variable, which the image must apply`,
      })),
      ...Object.entries(mpsVariables).map(([variable, value]) => ({
        value: `${variable}=${value}`,
        from: `${tableLine}: its share of the GPU's threads and memory`,
      })),
      {
        value: `replicas ${replicaPlan.replicas}`,
        from: `as many as the fleet has room for, headroom ${percent(headroom)}`,
      },
    ],
    priceSources: [],
  }
}
