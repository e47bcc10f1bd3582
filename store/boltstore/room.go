package boltstore

func (s *Store) judgeRoom(*group, error) {}
