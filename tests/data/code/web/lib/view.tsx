import { openCart } from './cart';
import React from 'react';

function Row({ name }: { name: string }) {
  return <li>{name}</li>;
}

export function View() {
  openCart([]);
  return <ul><Row name="tea" /></ul>;
}
