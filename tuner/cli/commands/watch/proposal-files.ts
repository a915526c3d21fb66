/** Writes the proposal of a watch: deployment files, or the experiment file for tuning again. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { listCandidates } from '../../../../reports/recommendation/candidates.ts'
import { writeAtomically } from '../../../../reports/report/write-atomically.ts'
import { renderSpec, type SpecTargetName } from '../../../../reports/specs/index.ts'
import type { SpecFile } from '../../../../reports/specs/target.ts'
import type { Proposal } from '../../../../reports/watch/replan.ts'
import { applyOwnPod } from '../../../artifacts/own-pod.ts'
import { resolveServing } from '../../../artifacts/serving.ts'
import type { ReopenedExperiment } from '../reopen-experiment.ts'

/** Room of the autoscaler above the proposed replicas, for peaks above last week's. Assumed. */
const maxReplicasFactor = 2

interface ProposalOptions {
  readonly folder: string
  readonly target: SpecTargetName
  readonly peakRps: number
  readonly headroom: number
  /** Factor by which production is slower than the measurement. */
  readonly slowness: number
}

/**
 * Returns the written paths; none without a proposal.
 * @throws SpecError and UserError
 */
export async function writeProposal(
  reopened: ReopenedExperiment,
  proposal: Proposal,
  options: ProposalOptions,
): Promise<readonly string[]> {
  const files = await renderProposal(reopened, proposal, options)
  if (files.length > 0) await mkdir(options.folder, { recursive: true })
  const paths = files.map(({ name }) => join(options.folder, name))
  for (const [i, { text }] of files.entries()) await writeAtomically(paths[i]!, text)
  return paths
}

async function renderProposal(
  { experiment, recommendation, trials, record }: ReopenedExperiment,
  proposal: Proposal,
  { target, peakRps, headroom, slowness }: ProposalOptions,
): Promise<readonly SpecFile[]> {
  if (proposal.kind === 'nothing') return []
  if (proposal.kind === 'tune again')
    return proposal.newModel ? [{ name: 'experiment.yaml', text: stringify(record.spec) }] : []
  const { trial, replicas } = proposal.to
  const measured = listCandidates(recommendation).find((candidate) => candidate.trial === trial)!
  const candidate = { ...measured, capacityRps: measured.capacityRps / slowness }
  const sizing = { minReplicas: replicas, maxReplicas: maxReplicasFactor * replicas }
  const serving = resolveServing(experiment, recommendation, candidate, trials, {
    demandRps: peakRps,
    headroom,
    ...sizing,
  })
  return renderSpec(target, applyOwnPod(experiment, serving))
}
