/** For programs: one JSON document at the end, or every event as a line of JSON (NDJSON). */
import { documentOf } from '../../reports/report/recommendation-json.ts'
import { createPlainProgress } from './plain-renderer.ts'
import { flushed, type Renderer, type RenderIo } from './render-io.ts'

/** JSON has no Infinity: it becomes the string "Infinity", as in the store. */
const finite = (_key: string, value: unknown) =>
  typeof value === 'number' && !Number.isFinite(value) ? String(value) : value

/** `--json`: the recommendation document on stdout, plain progress on stderr. */
export function createJsonRenderer(io: RenderIo): Renderer {
  const progress = createPlainProgress(io)
  return {
    handle(event) {
      progress(event)
      if (event.type === 'recommended') {
        io.stdout.write(
          `${JSON.stringify({ ...documentOf(event.recommendation), files: event.files }, null, 2)}\n`,
        )
      }
    },
    close: () => flushed(io.stdout),
  }
}

/** `--events`: one line a event on stdout, nothing else anywhere. */
export function createEventsRenderer(io: RenderIo): Renderer {
  return {
    handle: (event) => void io.stdout.write(`${JSON.stringify(event, finite)}\n`),
    close: () => flushed(io.stdout),
  }
}
