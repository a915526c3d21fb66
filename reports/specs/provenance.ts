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
import { formatManifests, formatYaml } from './manifest.ts'
import { addStagesToMissing, isMissing, missingWeights } from './placeholders.ts'
import type { ReplicaRequirements } from './requirements.ts'
import type { Serving, Source } from './serving.ts'
import type { PipelineRouter, SpecContent, SpecFile } from './target.ts'

/**
 * Adds the header comment to a file, in a script after its first line ('#!...'). The header has
 * missing inputs, mismatches between the measured and the deployed server, verdict, experiment, and
 * the source of each figure.
 */
export function createSpecFile(serving: Serving, content: SpecContent): SpecFile {
  const { figures } = serving
  return {
    name: content.name,
    text: addHeader(formatBody(content.body, content.namespace ?? serving.namespace), [
      ...listMissing(serving, content),
      ...(figures.apply
        ? []
        : [
            `${mismatchHeading}: ${figures.mismatches.join('; ')}.`,
            formatVerifyLine(serving, formatServingVerifyCommand(serving)),
          ]),
      ...describeOrigin(serving),
      ...listSourceLines(serving, content),
      ...listNotes(serving, content),
    ]),
  }
}

/** One stage of a pipeline and what it adds to the file. */
export interface StageContent {
  readonly serving: Serving
  readonly content: SpecContent
}

/** The file of a pipeline: its header has verdict and verify command once, and all stages. */
export function createPipelineFile(
  parts: readonly StageContent[],
  body: SpecContent['body'],
  router: PipelineRouter | undefined,
): SpecFile {
  const [{ serving: first, content }] = parts as readonly [StageContent]
  const notesByStage = parts.map(({ serving, content }) => listNotes(serving, content))
  const isShared = (note: string) => notesByStage.every((notes) => notes.includes(note))
  const entry = router?.entry ?? first
  return {
    name: content.name,
    text: addHeader(formatBody(body, content.namespace ?? first.namespace), [
      ...groupByText(parts, ({ serving, content }) => listMissing(serving, content)).map(
        ([note, stages]) => addStagesToMissing(note, stages),
      ),
      ...(router?.notes.filter(isMissing) ?? []),
      ...describeStageMismatches(parts),
      formatVerifyLine(entry, formatServingVerifyCommand(entry)),
      ...describeOrigin(first),
      ...parts.flatMap(({ serving, content }, index) => [
        `Stage ${nameStage(serving)}, as ${serving.name}:`,
        ...listSourceLines(serving, content),
        ...notesByStage[index]!.filter((note) => !isShared(note)),
      ]),
      ...(router?.notes ?? []).filter((note) => !isMissing(note)).map(formatNote),
      ...notesByStage[0]!.filter(isShared),
    ]),
  }
}

const nameStage = ({ stage, name }: Serving): string => stage?.name ?? name

/** A line for the stages whose figures are of another server than is deployed. */
function describeStageMismatches(parts: readonly StageContent[]): string[] {
  const clauses = groupByText(parts, ({ serving: { figures } }) =>
    figures.apply ? [] : [figures.mismatches.join('; ')],
  ).map(([text, stages]) => `${stages}: ${text}`)
  return clauses.length > 0 ? [`${mismatchHeading}: ${clauses.join('. ')}.`] : []
}

/** Texts, each with the stages that it applies to: 'stages embed, rank'. */
function groupByText(
  parts: readonly StageContent[],
  listTexts: (part: StageContent) => readonly string[],
): (readonly [text: string, stages: string])[] {
  const stagesByText = new Map<string, string[]>()
  for (const part of parts)
    for (const text of listTexts(part))
      stagesByText.set(text, [...(stagesByText.get(text) ?? []), nameStage(part.serving)])
  return [...stagesByText].map(([text, stages]) => [
    text,
    `${stages.length === 1 ? 'stage' : 'stages'} ${stages.join(', ')}`,
  ])
}

const formatBody = (body: SpecContent['body'], namespace: string | undefined): string => {
  if (typeof body === 'string') return body
  return 'document' in body ? formatYaml(body.document) : formatManifests(body, namespace)
}

/** Line breaks in the lines are removed, so that they cannot end the comment. */
function addHeader(text: string, lines: readonly string[]): string {
  const firstLine = /^#!.*\n/.exec(text)?.[0] ?? ''
  const header = lines.map((line) => `# ${joinLines(line)}\n`).join('')
  return `${firstLine}${header}${text.slice(firstLine.length)}`
}

const listMissing = (
  { deployed }: Serving,
  { notes = [], needsWeights = true }: SpecContent,
): string[] => [
  ...(needsWeights && deployed.weights === 'missing' ? [missingWeights] : []),
  ...notes.filter(isMissing),
]

const formatVerifyLine = ({ host }: Serving, command: string): string =>
  `Check it once it runs${host === undefined ? ' (replace ADDRESS with its host)' : ''}: ${command}`

const describeOrigin = ({ evidence, figures, trial }: Serving): string[] => [
  evidence.verdict,
  formatStatusSentence(evidence.status, evidence.measured.how),
  `Written by tune from ${evidence.table ?? `experiment ${evidence.experimentId}, trial ${trial} (${figures.provenance}${evidence.measuredAt ? `, ${evidence.measuredAt}` : ''}, seed ${evidence.seed})`}.`,
]

function listSourceLines(serving: Serving, { requirements }: SpecContent): string[] {
  const sources = [
    ...serving.sources,
    ...(requirements ?? describeRequirements(serving.requirements)),
    ...serving.priceSources,
  ]
  const width = Math.max(...sources.map(({ value }) => value.length))
  return sources.map(({ value, from }) => `  ${value.padEnd(width)}  ${from}`)
}

const listNotes = ({ figures }: Serving, { notes = [] }: SpecContent): string[] =>
  [...figures.remarks, ...notes.filter((note) => !isMissing(note))].map(formatNote)

const formatNote = (note: string): string => `Note: ${note}`

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
  ...(serving.figures.apply || isInnerStage(serving)
    ? {}
    : { 'tune/verify': joinLines(formatServingVerifyCommand(serving)) }),
})

/** The SLO is that of the whole pipeline, which is verified at its entry. */
export const isInnerStage = ({ stage }: Serving): boolean =>
  stage !== undefined && stage.verifyRps === undefined

const formatServingVerifyCommand = (serving: Serving): string =>
  formatVerifyCommand(
    buildVerifyTarget(
      serving,
      serving.host ?? 'ADDRESS',
      serving.stage?.verifyRps ?? serving.perReplicaRps * serving.replicas,
    ),
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
