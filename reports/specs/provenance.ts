/**
 * Provenance of a spec: the header comment of each file and the annotations of its objects.
 * Deployment targets leave both to this file.
 */
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { joinLines } from '../../trials/shell-words.ts'
import {
  formatFiguresStatus,
  formatVerifyCommand,
  mismatchHeading,
  resolveServerProtocol,
  type VerifyTarget,
} from '../figures.ts'
import { formatStatusSentence } from '../recommendation/describe-status.ts'
import { formatManifests } from './manifest.ts'
import { isMissing, missingWeights } from './placeholders.ts'
import type { ReplicaRequirements } from './requirements.ts'
import type { Serving, Source } from './serving.ts'
import type { SpecContent, SpecFile } from './target.ts'

/** Adds the header comment to a file, in a script after its first line ('#!...'). */
export function createSpecFile(serving: Serving, content: SpecContent): SpecFile {
  const { name, body, namespace = serving.namespace } = content
  const text = typeof body === 'string' ? body : formatManifests(body, namespace)
  const firstLine = /^#!.*\n/.exec(text)?.[0] ?? ''
  return {
    name,
    text: `${firstLine}${formatHeader(serving, content)}${text.slice(firstLine.length)}`,
  }
}

/**
 * Formats the header comment: missing inputs, mismatches between the measured and the deployed
 * server, verdict, experiment, and the source of each figure. Line breaks in texts are removed, so
 * that they cannot end the comment.
 */
function formatHeader(
  serving: Serving,
  { notes = [], needsWeights = true, requirements }: SpecContent,
): string {
  const { evidence, figures, trial } = serving
  const sources = [
    ...serving.sources,
    ...(requirements ?? describeRequirements(serving.requirements)),
    ...serving.priceSources,
  ]
  const width = Math.max(...sources.map(({ value }) => value.length))
  const lines = [
    ...(needsWeights && serving.deployed.weights === 'missing' ? [missingWeights] : []),
    ...notes.filter(isMissing),
    ...(figures.apply
      ? []
      : [
          `${mismatchHeading}: ${figures.mismatches.join('; ')}.`,
          `Check it once it runs${serving.host === undefined ? ' (replace ADDRESS with its host)' : ''}: ${formatServingVerifyCommand(serving)}`,
        ]),
    evidence.verdict,
    formatStatusSentence(evidence.status, evidence.measured.how),
    `Written by tune from ${evidence.table ?? `experiment ${evidence.experimentId}, trial ${trial} (${figures.provenance}${evidence.measuredAt ? `, ${evidence.measuredAt}` : ''}, seed ${evidence.seed})`}.`,
    ...sources.map(({ value, from }) => `  ${value.padEnd(width)}  ${from}`),
    ...[...figures.remarks, ...notes.filter((note) => !isMissing(note))].map(
      (note) => `Note: ${note}`,
    ),
  ]
  return lines.map((line) => `# ${joinLines(line)}\n`).join('')
}

/**
 * Lists the requirements with their reasons.
 * @param owner such as 'each server', if these are not the requirements of a whole replica
 */
export function describeRequirements(
  {
    cpuCores,
    memoryMiB,
    sharedMemoryMiB,
    startupSeconds,
    graceSeconds,
    reasons,
  }: ReplicaRequirements,
  owner?: string,
): Source[] {
  const cores =
    cpuCores === undefined ? 'no CPU request' : `${cpuCores} ${cpuCores === 1 ? 'core' : 'cores'}`
  const lines = [
    [cores, reasons.cpu],
    [memoryMiB === undefined ? 'no memory request' : `memory ${memoryMiB} MiB`, reasons.memory],
    ...(sharedMemoryMiB === undefined
      ? []
      : [
          [
            `shared memory ${sharedMemoryMiB} MiB`,
            'between its processes; counted in the memory',
          ] as const,
        ]),
    [`startup deadline ${startupSeconds} s`, reasons.startup],
    [`grace period ${graceSeconds} s`, reasons.grace],
  ] as const
  return lines.map(([value, from]) => ({
    value: owner === undefined ? value : `${value} (${owner})`,
    from,
  }))
}

/**
 * Annotations of the serving object: the measurement behind it, and whether its figures apply to
 * this deployment.
 */
export const buildAnnotations = (serving: Serving): Readonly<Record<string, string>> => ({
  'tune/experiment': joinLines(serving.evidence.experimentId),
  'tune/trial': String(serving.trial),
  'tune/figures': formatFiguresStatus(serving.figures),
  ...(serving.figures.apply
    ? {}
    : { 'tune/verify': joinLines(formatServingVerifyCommand(serving)) }),
})

const formatServingVerifyCommand = (serving: Serving): string =>
  formatVerifyCommand(
    buildVerifyTarget(serving, serving.host ?? 'ADDRESS', serving.perReplicaRps * serving.replicas),
  )

/** Builds the target of `tune verify`: the deployed service at a host, and the rate to send. */
export function buildVerifyTarget(
  { model, evidence, deployed, container }: Serving,
  host: string,
  rateRps: number,
): VerifyTarget {
  const { measured, slo } = evidence
  const protocol = resolveServerProtocol(deployed.server, measured.protocol)
  // Paths and bodies apply only to the protocol that was measured.
  const { path, healthPath, body }: Pick<MeasuredWith, 'path' | 'healthPath' | 'body'> =
    protocol === measured.protocol ? measured : {}
  return {
    host,
    grpcPort: container.grpcPort,
    protocol,
    path,
    healthPath,
    body,
    model,
    rateRps,
    slo,
  }
}
