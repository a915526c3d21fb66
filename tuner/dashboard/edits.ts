/**
 * Changes that the page may make: notes, tags, archiving and deleting experiments. Measurements
 * never change.
 */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { annotate, deleteExperiments } from '../../trials/store/index.ts'
import { MalformedRequest } from './guard.ts'

/**
 * The token authorises writes to the store at `path`. It is only in the address that the command
 * prints.
 */
export interface Edits {
  readonly path: string
  readonly token: string
}

const annotationChange = z.strictObject({
  trial: z.number().int().positive().optional(),
  note: z.string().optional(),
  addTags: z.array(z.string()).optional(),
  removeTags: z.array(z.string()).optional(),
  archived: z.boolean().optional(),
})

/** Adds the routes that write. */
export function addEdits(server: FastifyInstance, { path }: Edits): void {
  server.post<{ Params: { id: string } }>(
    '/api/experiments/:id/annotation',
    async ({ params, body }) => {
      const parsed = annotationChange.safeParse(body)
      if (!parsed.success)
        throw new MalformedRequest(
          parsed.error.issues
            .map((i) => `${i.path.join('.') || 'annotation'}: ${i.message}`)
            .join('; '),
        )
      const { trial, ...asked } = parsed.data
      return annotate(
        path,
        { experimentId: params.id, ...(trial !== undefined && { trial }) },
        asked,
      )
    },
  )
  server.delete<{ Params: { id: string } }>('/api/experiments/:id', async ({ params }, reply) => {
    await deleteExperiments(path, [params.id])
    return reply.code(204).send()
  })
}
