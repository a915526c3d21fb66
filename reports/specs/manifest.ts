/** Kubernetes objects as YAML, under a header that says where each figure comes from. */
import { stringify } from 'yaml'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { oneLine } from '../../trials/shell-words.ts'
import {
  figuresWord,
  foreignFigures,
  protocolOfServer,
  type VerifiableService,
  verifyCommand,
} from '../figures.ts'
import { statusSentence } from '../recommendation/describe-status.ts'
import { isIncomplete, missingWeights } from './incomplete.ts'
import type { Serving } from './serving.ts'

export type Manifest = Readonly<Record<string, unknown>>

/** One file of a spec. */
export interface SpecFile {
  readonly name: string
  readonly text: string
}

export const yamlOf = (data: unknown): string =>
  stringify(JSON.parse(JSON.stringify(data)), { lineWidth: 0, version: '1.1' })

/**
 * A document per object; undefined fields are left out. Numbers in strings come out quoted, as
 * quantities must.
 */
export function manifestsYaml(
  serving: Serving,
  objects: readonly Manifest[],
  notes: readonly string[] = [],
  namespace: string | undefined = serving.namespace,
): string {
  const documents = objects.map((object) =>
    yamlOf({ ...object, metadata: { ...(object.metadata as Manifest), namespace } }),
  )
  return `${header(serving, notes)}${documents.join('---\n')}`
}

/**
 * Comment lines: what keeps the spec from starting, whether its figures hold, the verdict, the
 * experiment, and a line per figure. Line ends inside a text cannot end the comment.
 */
export function header(serving: Serving, notes: readonly string[] = [], mark = '#'): string {
  const { evidence, sources, figures, trial } = serving
  const width = Math.max(...sources.map((s) => s.value.length))
  const lines = [
    ...(serving.deployed.weights === 'missing' ? [missingWeights] : []),
    ...notes.filter(isIncomplete),
    ...(figures.hold
      ? []
      : [
          `${foreignFigures}: ${figures.doubts.join('; ')}.`,
          `Check it once it runs${serving.host === undefined ? ' (ADDRESS: where it is reachable)' : ''}: ${verifyOf(serving)}`,
        ]),
    evidence.verdict,
    statusSentence(evidence.status, evidence.measured.how),
    `Written by tune from ${evidence.table ?? `experiment ${evidence.experimentId}, trial ${trial} (${figures.how}${evidence.measuredAt ? `, ${evidence.measuredAt}` : ''}, seed ${evidence.seed})`}.`,
    ...sources.map((s) => `  ${s.value.padEnd(width)}  ${s.from}`),
    ...[...figures.remarks, ...notes.filter((note) => !isIncomplete(note))].map(
      (note) => `Note: ${note}`,
    ),
  ]
  return lines.map((line) => `${mark} ${oneLine(line)}\n`).join('')
}

const verifyOf = (serving: Serving): string =>
  verifyCommand(
    verifiableService(serving, serving.host ?? 'ADDRESS', serving.perReplicaRps * serving.replicas),
  )

/** What is deployed, as `tune verify` loads it at an address and a rate. */
export function verifiableService(
  { model, evidence, deployed, container }: Serving,
  host: string,
  rateRps: number,
): VerifiableService {
  const { measured, slo } = evidence
  const protocol = protocolOfServer(deployed.server, measured.protocol)
  // Of another server the paths and bodies are its own.
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

/** Annotations of the serving object: the measurement behind it, and whether its figures hold. */
export const annotationsOf = (serving: Serving): Readonly<Record<string, string>> => ({
  'tune/experiment': oneLine(serving.evidence.experimentId),
  'tune/trial': String(serving.trial),
  'tune/figures': figuresWord(serving.figures),
  ...(serving.figures.hold ? {} : { 'tune/verify': oneLine(verifyOf(serving)) }),
})
