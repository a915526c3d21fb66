/**
 * What comes from outside is read in few places, each bounded: what reads it elsewhere is named
 * here, with what bounds it.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Whatever takes bytes in of which another decides how many. */
const reading =
  /(?<!content|\bz)\.(?:text|json|arrayBuffer|blob|formData)\(\)|\breadFile(?:Sync)?\(|\breadSync\(|\bfor await \((?!.* of readLines\()|\bcreateInterface\(|\bcreateReadStream\(|\bprocess\.stdin\b|\.on\('data'|\bsetEncoding\(/g

/** Through these, everything. */
const readers = ['profiler/bounded-reader.ts']

const ofTheKernel = 'files of /proc and /sys, which the kernel keeps short'
const ourOwn = 'files of this program'
/** How often each reads, and what bounds it. */
const bounded: Readonly<Record<string, readonly [times: number, by: string]>> = {
  'profiler/load/content-encoding.ts': [1, 'counts what it has unpacked'],
  'profiler/load/cpu-affinity.ts': [1, ofTheKernel],
  'profiler/load/http-generator.ts': [1, 'keeps the last 4,000 characters'],
  'profiler/load/http1-connection.ts': [1, 'http1-answer.ts counts head and body'],
  'profiler/load/http2-connection.ts': [1, 'counts the body'],
  'profiler/load/machine-watch.ts': [1, ofTheKernel],
  'profiler/protocols/http.ts': [1, 'stops after 4 KiB or half a second'],
  'trials/launchers/diagnosis.ts': [1, ofTheKernel],
  'trials/launchers/kubernetes/api/api.ts': [1, 'a byte ends the connection'],
  'trials/launchers/kubernetes/watch/pod-log.ts': [
    1,
    'hands each chunk on to a log that is cut, or to a reader of lines with a limit',
  ],
  'trials/launchers/local/abandoned.ts': [1, ofTheKernel],
  'trials/launchers/local/control-group.ts': [1, ofTheKernel],
  'trials/launchers/local/device-probes.ts': [2, ofTheKernel],
  'trials/launchers/local/leftovers.ts': [1, ourOwn],
  'trials/launchers/local/port.ts': [1, ofTheKernel],
  'trials/launchers/local/prepare-step.ts': [2, 'looks at the size first; a note of our own'],
  'trials/launchers/local/process-group.ts': [2, 'a log that is cut'],
  'trials/launchers/local/processes.ts': [1, ofTheKernel],
  'trials/launchers/local/stage-relay-thread.ts': [2, 'forwards bytes, and keeps none'],
  'trials/launchers/local/warden-process.ts': [2, 'waits for its end alone'],
  'trials/machine/cgroups.ts': [1, ofTheKernel],
  'trials/machine/machine-facts.ts': [2, `${ofTheKernel}; ${ourOwn}`],
  'trials/predictor/engines/tfjs/wasm.ts': [1, ourOwn],
  'trials/predictor/llm/llm-http.ts': [1, 'counts bytes, and answers 413'],
  'trials/predictor/main.ts': [3, 'waits for its end alone'],
  'trials/store/owner.ts': [2, ofTheKernel],
  'trials/store/readable-rows.ts': [1, 'a page of the database at a time'],
  'trials/devices/calibration/published-tables.ts': [1, ourOwn],
  'reports/dashboard/bundle.ts': [2, ourOwn],
  'reports/dashboard/page/sections/details.tsx': [1, 'the page, from its own server'],
  'reports/dashboard/page/sections/exports.tsx': [1, 'the page, from its own server'],
  'reports/dashboard/page/source.ts': [4, 'the page, from its own server'],
  'tuner/cli/commands/delete/run.ts': [1, 'asks whether a person is there, and reads nothing'],
  'tuner/cli/commands/report/run.ts': [1, ourOwn],
  'tuner/cli/commands/watch/log-source.ts': [4, 'a regular file, line by line with a limit'],
  'tuner/reference-docs/write-reference.ts': [1, ourOwn],
  'tuner/cli/program-version.ts': [2, ourOwn],
  'tuner/cli/render/prompt.ts': [3, 'what a person types at a terminal'],
}

const isProduct = (file: string) =>
  /\.(ts|tsx|mts|mjs)$/.test(file) &&
  !/\.(test|bench|contract|k8s-test)\.tsx?$|(^|\/)(testing|bench|fixtures|schemas)\//.test(file)
const sources = ['search', 'profiler', 'trials', 'reports', 'tuner'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => join(folder, file))
    .filter(isProduct),
)
const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')

test('nothing is read without a bound', () => {
  const found = Object.fromEntries(
    sources
      .filter((file) => !readers.includes(file))
      .map(
        (file) =>
          [
            file,
            withoutComments(readFileSync(join(root, file), 'utf8')).match(reading)?.length ?? 0,
          ] as const,
      )
      .filter(([, times]) => times > 0),
  )
  expect(found).toEqual(
    Object.fromEntries(Object.entries(bounded).map(([file, [times]]) => [file, times])),
  )
})
