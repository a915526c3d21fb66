/** Output for programs: one JSON document at the end, or each event as a line (NDJSON). */
import { toDocument } from '../../../reports/report/recommendation-json.ts'
import { createPlainProgress } from './plain-renderer.ts'
import { flush, type Renderer, type RenderIo } from './render-io.ts'

/** JSON has no Infinity, so it is written as the string "Infinity", as in the store. */
const replaceInfinity = (_key: string, value: unknown) =>
  typeof value === 'number' && !Number.isFinite(value) ? String(value) : value

/** `--json`: the recommendation document on stdout, plain progress on stderr. */
export function createJsonRenderer(io: RenderIo): Renderer {
  const progress = createPlainProgress(io)
  return {
    handle(event) {
      progress(event)
      if (event.type === 'recommended') {
        io.stdout.write(
          `${JSON.stringify({ ...toDocument(event.recommendation), files: event.files }, null, 2)}\n`,
        )
      }
    },
    close: () => flush(io.stdout),
  }
}

/** `--events`: one line of JSON per event on stdout, and no other output. */
export function createEventsRenderer(io: RenderIo): Renderer {
  return {
    handle: (event) => void io.stdout.write(`${JSON.stringify(event, replaceInfinity)}\n`),
    close: () => flush(io.stdout),
  }
}
