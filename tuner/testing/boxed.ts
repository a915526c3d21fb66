/** Tests with a command line of their own. */
import { test } from 'vitest'
import { CliBox } from './run-cli.ts'

/**
 * Tests of one file, some beside one another: each has its folder, and most of what they take is
 * spent waiting. Not for those that judge a figure, which a neighbour moves, nor for those that
 * look at the whole machine, as `tune clean` does: they see each other.
 */
export const boxed = (prepare: (box: CliBox) => void = () => {}) =>
  test.extend<{ box: CliBox }>({
    // biome-ignore lint/correctness/noEmptyPattern: vitest reads from it which other fixtures this one takes
    box: async ({}, use) => {
      const box = new CliBox()
      prepare(box)
      await use(box)
      await box.end()
    },
  }).concurrent
