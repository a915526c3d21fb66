/** What is proposed, as files: the new spec, how it differs from what is deployed, and why. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createTwoFilesPatch } from 'diff'
import { stringify } from 'yaml'
import { candidatesOf } from '../../../reports/recommendation/candidates.ts'
import { writeAtomically } from '../../../reports/report/write-atomically.ts'
import { renderSpec, type SpecTargetName } from '../../../reports/specs/index.ts'
import { patchManifests } from '../../../reports/specs/patch.ts'
import type { Serving } from '../../../reports/specs/serving.ts'
import type { Proposal } from '../../../reports/watch/replan.ts'
import { withOwnPod } from '../../delivery/own-pod.ts'
import { servingFrom } from '../../delivery/serving-from.ts'
import { givenText } from '../../given-file.ts'
import type { Reopened } from '../reopened.ts'

interface ProposalOptions {
  readonly folder: string
  readonly target: SpecTargetName
  /** The deployed manifest. */
  readonly patch?: string
  readonly container?: string
  readonly deployed: { readonly trial: number; readonly replicas?: number }
  readonly peakRps: number
  readonly headroom: number
  /** By which factor production is slower than measured. */
  readonly slowness: number
}

interface NamedText {
  readonly name: string
  readonly text: string
}

/** The paths that were written: none where nothing is proposed. @throws SpecError and UserError */
export async function writeProposal(
  reopened: Reopened,
  proposal: Proposal,
  options: ProposalOptions,
): Promise<readonly string[]> {
  const files = await filesOf(reopened, proposal, options)
  if (files.length > 0) await mkdir(options.folder, { recursive: true })
  const paths = files.map(({ name }) => join(options.folder, name))
  for (const [i, { text }] of files.entries()) await writeAtomically(paths[i]!, text)
  return paths
}

async function filesOf(
  reopened: Reopened,
  proposal: Proposal,
  options: ProposalOptions,
): Promise<readonly NamedText[]> {
  if (proposal.kind === 'tune again')
    return proposal.newModel
      ? [{ name: 'experiment.yaml', text: stringify(reopened.record.spec) }]
      : []
  if (proposal.kind === 'nothing') return []
  const { to } = proposal
  const next = servingOf(reopened, to.trial, to.replicas, options)
  if (options.patch !== undefined) {
    const before = givenText(options.patch, 'the manifest', '--patch', 'document')
    const { text } = patchManifests(before, next, {
      container: options.container,
      file: options.patch,
    })
    const name = options.patch.split('/').at(-1)!
    return [
      { name, text },
      { name: 'changes.diff', text: differenceOf([{ name, text: before }], [{ name, text }]) },
    ]
  }
  const { trial, replicas = proposal.from?.replicas ?? 1 } = options.deployed
  const before = await renderSpec(
    options.target,
    servingOf(reopened, trial, replicas, { ...options, slowness: 1 }),
  )
  const after = await renderSpec(options.target, next)
  return [...after, { name: 'changes.diff', text: differenceOf(before, after) }]
}

function servingOf(
  { experiment, recommendation, trials }: Reopened,
  trial: number,
  replicas: number,
  { peakRps, headroom, slowness }: Pick<ProposalOptions, 'peakRps' | 'headroom' | 'slowness'>,
): Serving {
  const found = candidatesOf(recommendation).find((candidate) => candidate.trial === trial)!
  const candidate = { ...found, capacityRps: found.capacityRps / slowness }
  return withOwnPod(
    experiment,
    servingFrom(experiment, recommendation, candidate, trials, {
      demandRps: peakRps,
      headroom,
      minReplicas: replicas,
      maxReplicas: 2 * replicas,
    }),
  )
}

/** Unified, one file after the other. */
function differenceOf(before: readonly NamedText[], after: readonly NamedText[]): string {
  const names = [...new Set([...before, ...after].map(({ name }) => name))]
  const textOf = (files: readonly NamedText[], name: string) =>
    files.find((file) => file.name === name)?.text ?? ''
  return names
    .map((name) =>
      createTwoFilesPatch(`a/${name}`, `b/${name}`, textOf(before, name), textOf(after, name)),
    )
    .join('')
}
