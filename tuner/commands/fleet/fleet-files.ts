/**
 * A fleet as files to apply: the cuts of its nodes, and a deployment for every model on every kind
 * of slice.
 */
import { basename, join } from 'node:path'
import type { FleetPlan } from '../../../reports/fleet/fleet-plan.ts'
import { migLayoutsYaml, nodeLayouts } from '../../../reports/fleet/node-layouts.ts'
import { type FleetModel, type PackedGpu, whole } from '../../../reports/fleet/packing.ts'
import { type Placement, placementsOf } from '../../../reports/fleet/placements.ts'
import { routingComment } from '../../../reports/fleet/routing-blocks.ts'
import {
  type SharedPlacement,
  sharedGpuYaml,
  sharedPlacements,
} from '../../../reports/fleet/side-by-side.ts'
import { isStaying, turnsYaml } from '../../../reports/fleet/swap-proxy.ts'
import { tableServing } from '../../../reports/fleet/table-serving.ts'
import { percent } from '../../../reports/format.ts'
import { candidatesOf } from '../../../reports/recommendation/candidates.ts'
import { renderSpec, type SpecTargetName } from '../../../reports/specs/index.ts'
import { dnsLabel, mostOfLabel, type Placed, type Serving } from '../../../reports/specs/serving.ts'
import { SpecError } from '../../../reports/specs/spec-error.ts'
import { withOwnPod } from '../../delivery/own-pod.ts'
import { servingFrom } from '../../delivery/serving-from.ts'
import type { FleetFile, FleetModelEntry } from './fleet-file.ts'
import type { ModelSource } from './model-source.ts'

export interface FleetFiles {
  readonly files: readonly { readonly path: string; readonly text: string }[]
  /** Models for which nothing is written, and why. */
  readonly leftOut: readonly string[]
}

const unpinned =
  'on which GPU each replica stands. spare: and apart: hold as the plan places them, and a cluster gives a pod any free slice of its kind: hold its places against the table of GPUs'

interface Deployable {
  readonly entry: FleetModelEntry
  readonly source: ModelSource
}

interface Deployed {
  readonly serving: Serving
  readonly files: FleetFiles['files']
}

/**
 * `nodes/mig-layouts.yaml`, `models/NAME.yaml` for each deployment, and `turns/NAME.yaml` for each
 * set that is loaded as requests come, `shared/NAME.yaml` for each GPU under MPS. Throws what a
 * store or a pod of the user's own does.
 */
export async function fleetFiles(
  plan: FleetPlan,
  { headroom, perNode, timezone, kinds }: FleetFile,
  models: readonly Deployable[],
  target: SpecTargetName,
): Promise<FleetFiles> {
  const { atPeaks, hoursRps, rules, turning } = plan
  const layouts = nodeLayouts(atPeaks.gpus, perNode)
  const hourly = (model: string) => hoursRps[models.findIndex(({ entry }) => entry.name === model)]!
  const planned = placementsOf(atPeaks.gpus, hourly, rules.spared)
  const sharing = sharedPlacements(atPeaks.gpus, planned, kinds)
  const placements: readonly (Placement | SharedPlacement)[] = [
    ...planned.filter(({ segment }) => segment.share === undefined),
    ...sharing,
  ]
  const sets = atPeaks.gpus.flatMap(({ kind, slots }) =>
    slots.flatMap((slot) => (slot.waiting ? [{ kind, slot }] : [])),
  )
  const swapped = sets.map(({ slot }) =>
    slot.waiting!.map(({ model, segment, waits }) => ({
      model,
      segment,
      replicas: 1,
      share: 1,
      longestS: waits.longestS,
    })),
  )
  const all: readonly Placement[] = [...placements, ...swapped.flat()]
  const names = deploymentNames(all)
  const files: { path: string; text: string }[] = []
  const leftOut: string[] = []
  if (rules.spared.size > 0 || rules.apart.length > 0) leftOut.push(unpinned)
  const deployed = async (placement: Placement, placed: Placed): Promise<Deployed> => {
    const { entry, source } = models.find((one) => one.entry.name === placement.model)!
    const overDay = turning?.find(({ name }) => name === placement.model)?.overDay
    const name = names[all.indexOf(placement)]!
    const serving = servingOf(
      entry,
      source,
      placement,
      name,
      headroom,
      placed,
      perNode(placement.segment.gpu),
    )
    const written = await renderSpec(target, serving)
    const folder = written.length === 1 ? 'models' : join('models', serving.name)
    const said = `${routing(placement, placements, source.buckets, overDay)}${target === 'kubernetes' ? '' : unscheduled(placement)}`
    const paths = written.map((file) =>
      join(folder, written.length === 1 ? `${serving.name}.yaml` : file.name),
    )
    return {
      serving,
      files: written.map(({ text }, i) => ({ path: paths[i]!, text: `${said}${text}` })),
    }
  }
  const orLeftOut = async (what: string, write: () => Promise<FleetFiles['files']>) => {
    try {
      files.push(...(await write()))
    } catch (error) {
      if (!(error instanceof SpecError)) throw error
      leftOut.push(`${what}: ${error.message}${error.hint ? ` (${error.hint})` : ''}`)
    }
  }
  const sideBySide = new Map<string, Serving[]>()
  for (const placement of placements) {
    await orLeftOut(names[all.indexOf(placement)]!, async () => {
      const placed = placedOf(placement, timezone)
      if (placed.inTurns && target !== 'kubernetes')
        throw new SpecError(
          `it takes turns with others, and ${target} keeps its replicas at all hours`,
          'use --target kubernetes',
        )
      const made = await deployed(placement, placed)
      if (placed.claim)
        sideBySide.set(placed.claim, [...(sideBySide.get(placed.claim) ?? []), made.serving])
      return made.files
    })
  }
  files.push(
    ...[...sideBySide].map(([claim, servings]) => ({
      path: join('shared', `${claim}.yaml`),
      text: sharedGpuYaml(claim, servings),
    })),
  )
  for (const [i, { kind, slot }] of sets.entries()) {
    const name = dnsLabel(
      ['turns', i + 1, kind, ...(slot.slice === whole ? [] : [slot.slice])].join('-'),
    )
    const on = slot.slice === whole ? `a ${kind}` : `${slot.slice} of a ${kind}`
    await orLeftOut(
      `${swapped[i]!.map(({ model }) => model).join(', ')} in turns on ${on}`,
      async () => {
        mustSwap(slot, turning ?? [], target)
        const { together, waiting } = slot
        const placed = {
          replicas: 1,
          ...(!isStaying(together, waiting!) && { onDemand: name }),
          ...(together && { claim: name }),
          timezone,
        }
        const written: {
          readonly placement: (typeof swapped)[number][number]
          readonly made: Deployed
        }[] = []
        for (const placement of swapped[i]!)
          written.push({ placement, made: await deployed(placement, placed) })
        const members = written.map(({ placement, made }) =>
          memberOf(placement, made.serving, plan, models),
        )
        const shared = together && { together, serving: written[0]!.made.serving }
        return [
          ...written.flatMap(({ made }) => made.files),
          { path: join('turns', `${name}.yaml`), text: turnsYaml({ name, on, members, shared }) },
        ]
      },
    )
  }
  const cuts = migLayoutsYaml(layouts, perNode)
  return {
    files: [
      ...(cuts === undefined ? [] : [{ path: join('nodes', 'mig-layouts.yaml'), text: cuts }]),
      ...files,
    ],
    leftOut,
  }
}

const placedOf = (placement: Placement | SharedPlacement, timezone: string): Placed => {
  const { replicas, byHour, inTurns } = placement
  const beside = 'claim' in placement && {
    claim: placement.claim,
    mps: { memoryMiB: placement.memoryMiB },
  }
  return { replicas, ...(byHour && { byHour }), ...(inTurns && { inTurns }), ...beside, timezone }
}

/** A model of a set that is loaded as requests come. */
function memberOf(
  { model, longestS }: { readonly model: string; readonly longestS: number },
  { name, container, held }: Serving,
  { turning, peaksRps }: FleetPlan,
  models: readonly Deployable[],
) {
  const peakRps = peaksRps[models.findIndex(({ entry }) => entry.name === model)]!
  return {
    name,
    model,
    readyPath: container.readyPath,
    loadS: turning!.find((of) => of.name === model)!.turning!.loadS,
    graceS: held.graceSeconds,
    // As many as come while one waits longest, twice that where they come in bursts.
    mostRequests: Math.max(leastRequests, Math.ceil(2 * peakRps * longestS)),
  }
}

/** Of a model that is asked for rarely: what llama-swap lets through by itself. */
const leastRequests = 10

/** Throws SpecError for what pods that come and go cannot do. */
function mustSwap(
  { waiting = [], together }: PackedGpu['slots'][number],
  turning: readonly FleetModel[],
  target: SpecTargetName,
): void {
  if (target !== 'kubernetes')
    throw new SpecError(
      `a proxy brings them up and puts them away, which ${target} does by itself`,
      'use --target kubernetes',
    )
  if (isStaying(together, waiting)) return
  const woken = waiting.flatMap(({ model }) =>
    turning.find(({ name }) => name === model)?.turning?.onDemand?.wakeS === undefined
      ? []
      : [model],
  )
  if (woken.length > 0)
    throw new SpecError(
      `weights of ${woken.join(' and ')} are to wait in the host's memory, and a pod that ends leaves nothing there`,
      'start their servers in one pod behind llama-swap, such as vLLM in sleep mode, put to sleep before another is woken (/sleep, /wake_up); or leave wake: out',
    )
}

function servingOf(
  entry: FleetModelEntry,
  source: ModelSource,
  { segment }: Placement,
  name: string,
  headroom: number,
  placed: Placed,
  gpusOfNode: number,
): Serving {
  const { image, port, health, modelUri, classes, llm } = entry
  if (segment.gpus > gpusOfNode)
    throw new SpecError(
      `a replica stands on ${segment.gpus} GPUs, and a node has ${gpusOfNode}`,
      `say how many it has: gpus: {${segment.gpu}: {perNode: ${segment.gpus}}}`,
    )
  if (llm)
    throw new SpecError(
      'its rates are estimated and nothing was measured',
      'measure it: tune --model ... on the GPUs of the plan, and give the experiments as classes:',
    )
  const measured = classes?.find(({ name: of }) => of === segment.startedAs) ?? entry
  const { reopened } = source.byClass?.get(measured.name) ?? source
  if (reopened === undefined) {
    if (image === undefined)
      throw new SpecError('a table does not say what serves', 'name its image: in the fleet file')
    const { sloMs, table } = measured
    if (sloMs === undefined)
      throw new SpecError('nothing says what would prove it', 'give its slo: in the fleet file')
    const given = { image, port: port ?? defaultPort, health: health ?? defaultHealth }
    return tableServing(
      { name, model: entry.name, table: basename(table!), segment, headroom, sloMs, placed },
      given,
    )
  }
  const { experiment, recommendation, trials } = reopened
  const candidate = candidatesOf(recommendation).find(({ trial }) => trial === segment.trial)!
  const made = servingFrom(experiment, recommendation, candidate, trials, {
    name,
    headroom,
    placed,
    image,
    modelUri,
    // As its node is cut, whichever way the trials asked.
    gpuScheme: placed.claim ? 'dra' : segment.slice === whole ? undefined : 'mig-mixed',
  })
  return withOwnPod(experiment, made)
}

/** Of the protocol that most servers speak. */
const [defaultPort, defaultHealth] = [8000, '/v2/health/ready']

/** What a gateway before several deployments of one model needs to know. */
function routing(
  placement: Placement,
  all: readonly Placement[],
  buckets: FleetModel['buckets'],
  overDay: FleetModel['overDay'],
): string {
  const { model, share, segment } = placement
  if (segment.routed) return routingComment(model, segment, buckets, overDay)
  const others = all.filter((one) => one.model === model && one !== placement)
  return others.length === 0
    ? ''
    : `# Of the requests of ${model} these replicas are to get ${percent(share)}: weigh their Service so.\n`
}

/** Of a target that is not told the hours. */
const unscheduled = ({ byHour }: Placement): string =>
  byHour === undefined
    ? ''
    : `# Of these replicas ${Math.min(...byHour)} would do in some hours: --target kubernetes writes them by the hour.\n`

/**
 * bert-a100-80gb-1g-10gb: one for each model and kind of slice, told apart where that is not
 * enough.
 */
function deploymentNames(placements: readonly Placement[]): string[] {
  const taken = new Set<string>()
  return placements.map(({ model, segment: { gpu, slice, gpus } }) => {
    const name = dnsLabel(
      [model, ...(gpus > 1 ? [`${gpus}x`] : []), gpu, ...(slice === whole ? [] : [slice])].join(
        '-',
      ),
    )
    let own = name
    // A label has an end: of a long name the number stays.
    for (let n = 2; taken.has(own); n++)
      own = `${name.slice(0, mostOfLabel - 1 - String(n).length)}-${n}`
    taken.add(own)
    return own
  })
}
