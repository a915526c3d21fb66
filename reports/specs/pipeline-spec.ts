/** Deployment specs of pipelines: the objects of all stages in one file, under one header. */
import { serverTitles } from '../figures.ts'
import { loadTarget, type SpecTargetName } from './index.ts'
import type { Manifest } from './manifest.ts'
import { describeMissing } from './placeholders.ts'
import { createPipelineFile, type StageContent } from './provenance.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'
import {
  checkOptions,
  checkServing,
  type PipelineRouter,
  type SpecContent,
  type SpecFile,
  type SpecOptions,
  type SpecTarget,
} from './target.ts'

/**
 * Renders the spec of a pipeline.
 * @param name of the pipeline, a DNS label
 * @param stages callers first; the first is the entry
 * @throws SpecError if the target cannot deploy one of the stages
 */
export async function renderPipelineSpec(
  targetName: SpecTargetName,
  name: string,
  stages: readonly Serving[],
  options: SpecOptions = {},
): Promise<SpecFile> {
  const target = await loadTarget(targetName)
  const router = target.pipeline?.buildRouter?.(name, stages, options)
  const parts = stages.map((stage): StageContent => {
    const serving = router === undefined ? stage : hideEntry(stage)
    const reachable = { ...serving, host: target.host?.(serving, options) }
    const content = renderStage(target, reachable, options)
    const unwired = router === undefined ? describeUnwiredCalls(serving) : []
    return {
      serving: reachable,
      content: { ...content, notes: [...unwired, ...(content.notes ?? [])] },
    }
  })
  return createPipelineFile(parts, joinBodies(parts, router), router)
}

/** Behind a router the first stage is an inner one. */
const hideEntry = (serving: Serving): Serving => ({
  ...serving,
  stage: serving.stage && { ...serving.stage, verifyRps: undefined },
})

function renderStage(target: SpecTarget, serving: Serving, options: SpecOptions): SpecContent {
  try {
    checkServing(target, serving)
    checkOptions(target, serving, options)
    return [target.render(serving, options)].flat()[0]!
  } catch (error) {
    if (!(error instanceof SpecError)) throw error
    throw new SpecError(`stage ${serving.stage?.name}: ${error.message}`, error.hint)
  }
}

/** A note for a stage whose server does not make the calls that the pipeline needs. */
function describeUnwiredCalls({ stage, deployed }: Serving): string[] {
  const unwired = stage?.calls.filter(({ isWired }) => !isWired) ?? []
  if (unwired.length === 0) return []
  return [
    describeMissing(
      `${serverTitles[deployed.server]} calls no other stage`,
      `Deploy a server that calls ${unwired.map(({ url }) => url).join(' and ')}.`,
    ),
  ]
}

/** All objects one after the other, or the sections of all documents merged. */
function joinBodies(
  parts: readonly StageContent[],
  router: PipelineRouter | undefined,
): SpecContent['body'] {
  const objects: Manifest[] = []
  const document: Record<string, Manifest> = {}
  for (const { content } of parts) {
    const { body } = content
    if (typeof body === 'string') throw new TypeError(`${content.name} cannot be joined`)
    if ('document' in body) mergeSections(document, body.document)
    else objects.push(...body)
  }
  return objects.length > 0 ? [...objects, ...(router?.objects ?? [])] : { document }
}

function mergeSections(document: Record<string, Manifest>, added: Manifest): void {
  for (const [section, entries] of Object.entries(added))
    if (entries !== undefined)
      document[section] = { ...document[section], ...(entries as Manifest) }
}
