/**
 * Where a spec comes from: the comment at the head of each file and the annotations of its objects.
 * No target writes either itself.
 */
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { joinLines } from '../../trials/shell-words.ts'
import {
  foreignFigures,
  nameFigures,
  protocolOfServer,
  type VerifiableService,
  verifyCommand,
} from '../figures.ts'
import { formatStatusSentence } from '../recommendation/describe-status.ts'
import { formatManifests } from './manifest.ts'
import { isMissing, missingWeights } from './placeholders.ts'
import type { ReplicaRequirements } from './requirements.ts'
import type { Serving, Source } from './serving.ts'
import type { SpecContent, SpecFile } from './target.ts'

/** The file with its comment first, or after the first line ('#!...') of a script. */
export function writeSpecFile(serving: Serving, content: SpecContent): SpecFile {
  const { name, body, namespace = serving.namespace } = content
  const text = typeof body === 'string' ? body : formatManifests(body, namespace)
  const firstLine = /^#!.*\n/.exec(text)?.[0] ?? ''
  return {
    name,
    text: `${firstLine}${writeHeader(serving, content)}${text.slice(firstLine.length)}`,
  }
}

/**
 * Comment lines: what keeps the spec from starting, whether its figures hold, the verdict, the
 * experiment, and a line for each figure. A line end inside a text cannot end the comment.
 */
function writeHeader(
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
    ...(figures.hold
      ? []
      : [
          `${foreignFigures}: ${figures.doubts.join('; ')}.`,
          `Check it once it runs${serving.host === undefined ? ' (ADDRESS: where it is reachable)' : ''}: ${writeVerifyCommand(serving)}`,
        ]),
    evidence.verdict,
    formatStatusSentence(evidence.status, evidence.measured.how),
    `Written by tune from ${evidence.table ?? `experiment ${evidence.experimentId}, trial ${trial} (${figures.how}${evidence.measuredAt ? `, ${evidence.measuredAt}` : ''}, seed ${evidence.seed})`}.`,
    ...sources.map(({ value, from }) => `  ${value.padEnd(width)}  ${from}`),
    ...[...figures.remarks, ...notes.filter((note) => !isMissing(note))].map(
      (note) => `Note: ${note}`,
    ),
  ]
  return lines.map((line) => `# ${joinLines(line)}\n`).join('')
}

/** @param owner such as 'each server', if these are not the requirements of a whole replica */
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

/** Annotations of the serving object: the measurement behind it, and whether its figures hold. */
export const buildAnnotations = (serving: Serving): Readonly<Record<string, string>> => ({
  'tune/experiment': joinLines(serving.evidence.experimentId),
  'tune/trial': String(serving.trial),
  'tune/figures': nameFigures(serving.figures),
  ...(serving.figures.hold ? {} : { 'tune/verify': joinLines(writeVerifyCommand(serving)) }),
})

const writeVerifyCommand = (serving: Serving): string =>
  verifyCommand(
    describeService(serving, serving.host ?? 'ADDRESS', serving.perReplicaRps * serving.replicas),
  )

/** What is deployed, as `tune verify` loads it at an address and a rate. */
export function describeService(
  { model, evidence, deployed, container }: Serving,
  host: string,
  rateRps: number,
): VerifiableService {
  const { measured, slo } = evidence
  const protocol = protocolOfServer(deployed.server, measured.protocol)
  // Another protocol has paths and bodies of its own.
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
