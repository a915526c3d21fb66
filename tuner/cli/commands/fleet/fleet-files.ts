/**
 * Renders a fleet as manifests: the MIG layouts of its nodes, and a deployment for every model on
 * every type of slice.
 */
import { basename, join } from 'node:path'
import type { FleetPlan } from '../../../../reports/fleet/fleet-plan.ts'
import {
  placeOnSharedGpus,
  renderSharedGpu,
  type SharedPlacement,
} from '../../../../reports/fleet/mps-claims.ts'
import { planNodes, renderMigLayouts } from '../../../../reports/fleet/node-layouts.ts'
import { wholeGpu } from '../../../../reports/fleet/packing.ts'
import { listPlacements, type Placement } from '../../../../reports/fleet/placements.ts'
import { describeTableServing } from '../../../../reports/fleet/table-serving.ts'
import { percent } from '../../../../reports/format.ts'
import { listCandidates } from '../../../../reports/recommendation/candidates.ts'
import { maxLabelLength, toDnsLabel } from '../../../../reports/specs/create-serving.ts'
import { renderSpec, type SpecTargetName } from '../../../../reports/specs/index.ts'
import type { ReplicaPlan, Serving } from '../../../../reports/specs/serving.ts'
import { SpecError } from '../../../../reports/specs/spec-error.ts'
import { applyOwnPod } from '../../../artifacts/own-pod.ts'
import { resolveServing } from '../../../artifacts/serving.ts'
import type { FleetFile, FleetModelEntry } from './fleet-file.ts'
import type { ModelSource } from './model-source.ts'

export interface FleetFiles {
  readonly files: readonly { readonly path: string; readonly text: string }[]
  /** Deployments that are not written, with the reason. */
  readonly skipped: readonly string[]
}

interface Deployable {
  readonly entry: FleetModelEntry
  readonly source: ModelSource
}

/**
 * `nodes/mig-layouts.yaml`, `models/NAME.yaml` for each deployment, and `shared/NAME.yaml` for each
 * GPU under MPS.
 * @throws what a store or a pod of the user's own does
 */
export async function renderFleetFiles(
  { atPeaks, hoursRps }: FleetPlan,
  { headroom, perNode, timezone, kinds }: FleetFile,
  models: readonly Deployable[],
  target: SpecTargetName,
): Promise<FleetFiles> {
  const findHourlyRates = (model: string) =>
    hoursRps[models.findIndex(({ entry }) => entry.name === model)]!
  const planned = listPlacements(atPeaks.gpus, findHourlyRates)
  const placements: readonly (Placement | SharedPlacement)[] = [
    ...planned.filter(({ segment }) => segment.share === undefined),
    ...placeOnSharedGpus(atPeaks.gpus, planned, kinds),
  ]
  const names = nameDeployments(placements)
  const migLayouts = renderMigLayouts(planNodes(atPeaks.gpus, perNode), perNode)
  const files =
    migLayouts === undefined ? [] : [{ path: join('nodes', 'mig-layouts.yaml'), text: migLayouts }]
  const skipped: string[] = []
  const servingsByClaim = new Map<string, Serving[]>()
  for (const [i, placement] of placements.entries()) {
    const { model, segment, replicas, byHour } = placement
    const claim = 'claim' in placement ? placement.claim : undefined
    const replicaPlan: ReplicaPlan = {
      replicas,
      ...(byHour && { byHour }),
      ...('claim' in placement && { claim, mps: { memoryMiB: placement.memoryMiB } }),
      timezone,
    }
    try {
      const fleetModel = models.find(({ entry }) => entry.name === model)!
      const maxGpus = perNode(segment.gpu)
      const serving = describeServing(
        fleetModel,
        placement,
        names[i]!,
        headroom,
        replicaPlan,
        maxGpus,
      )
      const header = `${formatShareComment(placement, placements)}${target === 'kubernetes' ? '' : formatHoursComment(placement)}`
      const specs = await renderSpec(target, serving)
      for (const { name, text } of specs)
        files.push({
          path:
            specs.length === 1
              ? join('models', `${serving.name}.yaml`)
              : join('models', serving.name, name),
          text: `${header}${text}`,
        })
      if (claim) servingsByClaim.set(claim, [...(servingsByClaim.get(claim) ?? []), serving])
    } catch (error) {
      if (!(error instanceof SpecError)) throw error
      skipped.push(`${names[i]}: ${error.message}${error.hint ? ` (${error.hint})` : ''}`)
    }
  }
  for (const [claim, servings] of servingsByClaim)
    files.push({ path: join('shared', `${claim}.yaml`), text: renderSharedGpu(claim, servings) })
  return { files, skipped }
}

/** Defaults of the Open Inference Protocol. */
const [defaultPort, defaultHealth] = [8000, '/v2/health/ready']

function describeServing(
  { entry, source: { reopened } }: Deployable,
  { segment }: Placement,
  name: string,
  headroom: number,
  replicaPlan: ReplicaPlan,
  gpusPerNode: number,
): Serving {
  const { image, port = defaultPort, health = defaultHealth, modelUri, sloMs, table } = entry
  if (segment.gpus > gpusPerNode)
    throw new SpecError(
      `a replica needs ${segment.gpus} GPUs, but a node has ${gpusPerNode}`,
      `set the GPUs per node: gpus: {${segment.gpu}: {perNode: ${segment.gpus}}}`,
    )
  if (reopened === undefined) {
    if (image === undefined)
      throw new SpecError(
        'the table of measurements does not name an image',
        'add image: in the fleet file',
      )
    if (sloMs === undefined)
      throw new SpecError('without an SLO, tune cannot verify it', 'add slo: in the fleet file')
    const model = entry.name
    return describeTableServing(
      { name, model, table: basename(table!), segment, headroom, sloMs, replicaPlan },
      { image, port, health },
    )
  }
  const { experiment, recommendation, trials } = reopened
  const candidate = listCandidates(recommendation).find(({ trial }) => trial === segment.trial)!
  const resolved = resolveServing(experiment, recommendation, candidate, trials, {
    name,
    headroom,
    replicaPlan,
    image,
    modelUri,
    // Nodes are cut by the MIG manager, whatever scheme the trials used.
    gpuScheme: segment.slice === wholeGpu ? undefined : 'mig-mixed',
  })
  return applyOwnPod(experiment, resolved)
}

/** Comment with the traffic share of a deployment, for models with several deployments. */
function formatShareComment(placement: Placement, all: readonly Placement[]): string {
  const { model, share } = placement
  return all.some((one) => one.model === model && one !== placement)
    ? `# Route ${percent(share)} of the requests of ${model} to these replicas.\n`
    : ''
}

const formatHoursComment = ({ byHour }: Placement): string =>
  byHour === undefined
    ? ''
    : `# In some hours, ${Math.min(...byHour)} of these replicas are enough: --target kubernetes scales them by the hour.\n`

/** 'bert-a100-80gb-1g-10gb', numbered where two would have the same name. */
function nameDeployments(placements: readonly Placement[]): string[] {
  const takenNames = new Set<string>()
  return placements.map(({ model, segment: { gpu, slice, gpus } }) => {
    const parts = [
      model,
      ...(gpus > 1 ? [`${gpus}x`] : []),
      gpu,
      ...(slice === wholeGpu ? [] : [slice]),
    ]
    const name = toDnsLabel(parts.join('-'))
    let unique = name
    // Labels have a maximum length: the number must survive it.
    for (let n = 2; takenNames.has(unique); n++)
      unique = `${name.slice(0, maxLabelLength - 1 - String(n).length)}-${n}`
    takenNames.add(unique)
    return unique
  })
}
