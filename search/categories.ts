/**
 * How a predictor receives a tuned value. This module imports nothing, because the command line's
 * help needs the names at once.
 */
const categories = {
  resource: 'reserved for the predictor: cores, memory, GPUs',
  server:
    'a placeholder in the command, its environment and its files; of the built-in predictor a setting',
  env: 'an environment variable',
  args: 'an argument of the command',
} as const
export type Category = keyof typeof categories
export const categoryNames = Object.keys(categories) as [Category, ...Category[]]
