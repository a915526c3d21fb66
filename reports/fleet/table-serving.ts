/**
 * How a replica of a table is deployed: an image that the user names, and what is told with its row
 * as variables.
 */
import { environmentName } from '../../trials/launchers/fill.ts'
import { mpsVariables } from '../../trials/launchers/mps-variables.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { resourcesOf } from '../../trials/resources.ts'
import { percent, rate } from '../format.ts'
import { heldOf } from '../specs/held.ts'
import { withSecretVariables } from '../specs/secret-variables.ts'
import { dnsLabel, type Placed, type Serving } from '../specs/serving.ts'
import { formatPlace, type Segment, whole } from './packing.ts'

interface TableImage {
  readonly image: string
  /** It listens there; health says whether it is ready. */
  readonly port: number
  readonly health: string
}

interface TableReplica {
  /** Of the deployment. */
  readonly name: string
  readonly model: string
  /** The table, as it is shown. */
  readonly table: string
  readonly segment: Segment
  readonly headroom: number
  readonly sloMs: number
  readonly placed: Placed
}

/**
 * Nothing of it is claimed as measured by tune: how the table's server was started is not known.
 */
export function describeTableServing(
  { name, model, table, segment, headroom, sloMs, placed }: TableReplica,
  { image, port, health }: TableImage,
): Serving {
  const { row, rateRps } = segment
  const cut = segment.slice !== whole && segment.share === undefined
  const configuration = {
    gpu: segment.gpu,
    gpus: segment.gpus,
    ...(cut && { migProfile: segment.slice }),
  }
  const resources = resourcesOf(configuration)
  // As of a server that ran already: neither its cores nor its memory are known.
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
  const held = heldOf({ measured, slo }, deployed, false, resources, {})
  const line = `${table}, line ${row?.line}`
  const tuned = Object.entries(row?.values ?? {}).map(
    ([column, value]) => [environmentName(column), value] as const,
  )
  const bounds = placed.mps ? mpsVariables(segment.share!, placed.mps.memoryMiB) : {}
  return {
    trial: row?.line ?? 0,
    name: dnsLabel(name),
    model,
    deployed,
    figures: {
      how: 'imported',
      hold: false,
      doubts: [
        `${line} says what a replica carries, not how its server was started; this deploys ${image}`,
      ],
      remarks: [],
    },
    scalable: false,
    container: withSecretVariables({
      image,
      imageNamed: true,
      env: { ...Object.fromEntries(tuned), ...bounds },
      port,
      readyPath: health,
    }),
    configuration,
    resources,
    held,
    gpuScheme: placed.claim ? 'dra' : cut ? 'mig-mixed' : undefined,
    replicas: placed.replicas,
    placed,
    sized: true,
    minReplicas: placed.replicas,
    maxReplicas: placed.replicas,
    requestedBounds: {},
    headroom,
    perReplicaRps: rateRps * (1 - headroom),
    evidence: {
      experimentId: line,
      table: line,
      seed: 0,
      slo,
      verdict: `${rate(rateRps)} per replica of ${model}${segment.label ? ` (${segment.label})` : ''} on ${segment.slice === whole ? `a whole ${segment.gpu}` : formatPlace(segment)}`,
      status: 'imported',
      measured,
    },
    sources: [
      { value: `capacity ${rate(rateRps)}`, from: line },
      ...tuned.map(([variable, value]) => ({
        value: `${variable}=${value}`,
        from: `${line}: a variable of the container, for its image to heed`,
      })),
      ...Object.entries(bounds).map(([variable, value]) => ({
        value: `${variable}=${value}`,
        from: `${line}: its part of the GPU's threads and memory`,
      })),
      {
        value: `replicas ${placed.replicas}`,
        from: `as the fleet has room for, headroom ${percent(headroom)}`,
      },
      ...held.sources,
    ],
  }
}
